"""What makes the broker a service: the units are right, nothing of anybody's is overwritten, all of it is taken back."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.broker.install import installing, machine
from jupyter_gpushare.broker.install.manifest import PLACE, below
from jupyter_gpushare.broker.install.planning import InstallError, check_may_change, plan
from jupyter_gpushare.broker.install.units import EXAMPLE, PROGRAM, Service, WrongWordError
from jupyter_gpushare.rules.loss import Loss

TOML = Path("/etc/gpushare/gpushare.toml")
UNITS = Path("/etc/systemd/system")
TURNED_ON = '[broker]\nlosses = ["job_stopped_after_grace"]\n'


def install(root: Path, configuration: Path = TOML) -> list[str]:
    """Install below *root*."""
    return installing.install(plan("gpushare", configuration, root))


def files(root: Path) -> dict[str, bytes]:
    """Every file below *root*."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def put(root: Path, path: Path, text: str) -> Path:
    """A file of the admin's."""
    there = below(root, path)
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_text(text)
    return there


def test_everything_that_was_written_is_taken_back(tmp_path: Path) -> None:
    """After uninstall nothing is left, not even a directory, and what was there before is as it was."""
    put(tmp_path, Path("/etc/motd"), "hello")
    before = files(tmp_path)
    install(tmp_path)
    assert len(files(tmp_path)) == len(before) + 5
    installing.uninstall(tmp_path)
    assert files(tmp_path) == before
    assert [path.name for path in below(tmp_path, Path("/etc")).iterdir()] == ["motd"]
    assert [path.name for path in tmp_path.iterdir()] == ["etc"]


def test_everybody_can_read_it_whatever_the_umask(tmp_path: Path) -> None:
    """A broker whose account cannot read its units or its configuration would not start."""
    old = os.umask(0o077)
    try:
        install(tmp_path)
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {0o755, 0o644}


def test_installing_twice_changes_nothing(tmp_path: Path) -> None:
    """A second time is harmless, and still can be taken back."""
    install(tmp_path)
    before = files(tmp_path)
    install(tmp_path)
    assert files(tmp_path) == before
    installing.uninstall(tmp_path)
    assert files(tmp_path) == {}


def test_the_admins_own_file_is_neither_overwritten_nor_removed(tmp_path: Path) -> None:
    """A gpushare.toml that was there, or was changed since, stays as it is."""
    there = put(tmp_path, TOML, "[projects.mine]\nquota = 1\n")
    install(tmp_path)
    installing.uninstall(tmp_path)
    assert there.read_text().startswith("[projects.mine]")
    there.unlink()
    install(tmp_path)
    there.write_text(EXAMPLE + "# mine\n")
    install(tmp_path)
    assert f"kept {there}: it was changed since" in installing.uninstall(tmp_path)
    assert there.read_text().endswith("# mine\n")


@pytest.mark.parametrize("harm", ["foreign", "edited"])
def test_files_of_others_are_never_written_over(tmp_path: Path, harm: str) -> None:
    """A unit that somebody else wrote, or edited, is named with what to do, and nothing at all is changed."""
    if harm == "edited":
        install(tmp_path)
    put(tmp_path, UNITS / "gpushare.service", "[Service]\nExecStart=/bin/true\n")
    before = files(tmp_path)
    with pytest.raises(
        InstallError, match=r"(?s)Nothing was changed.*gpushare\.service.*(move it away|systemctl edit)"
    ):
        install(tmp_path)
    assert files(tmp_path) == before


def test_a_wrong_configuration_is_told_before_anything_is_written(tmp_path: Path) -> None:
    """A broker that could not read its file is not installed."""
    put(tmp_path, TOML, "[projects.a]\nquota = -1\n")
    before = files(tmp_path)
    with pytest.raises(InstallError, match="quota"):
        install(tmp_path)
    assert files(tmp_path) == before


def test_the_privileged_program_comes_and_goes_with_the_loss(tmp_path: Path) -> None:
    """It is there only while the admin's file turns a loss on that needs it."""
    install(tmp_path)
    assert not below(tmp_path, PROGRAM).exists()
    put(tmp_path, TOML, TURNED_ON)
    install(tmp_path)
    assert below(tmp_path, PROGRAM).exists()
    assert below(tmp_path, UNITS / "gpushare-ending.socket").exists()
    put(tmp_path, TOML, "")
    said = install(tmp_path)
    assert not below(tmp_path, PROGRAM).exists()
    assert not below(tmp_path, UNITS / "gpushare-ending@.service").exists()
    assert "  systemctl disable --now gpushare-ending.socket" in said


def test_a_failed_write_can_be_taken_back(tmp_path: Path) -> None:
    """What an interrupted installation wrote is known, because it was noted before."""
    put(tmp_path, UNITS.parent, "")  # a file where a directory must be
    with pytest.raises(InstallError, match="uninstall"):
        install(tmp_path)
    below(tmp_path, UNITS.parent).unlink()
    installing.uninstall(tmp_path)
    assert files(tmp_path) == {}


def test_a_damaged_manifest_is_told(tmp_path: Path) -> None:
    """Nothing is removed on the word of a file that makes no sense."""
    install(tmp_path)
    before = put(tmp_path, PLACE, '{"account": 1}').read_text()
    with pytest.raises(InstallError, match="damaged"):
        installing.uninstall(tmp_path)
    assert below(tmp_path, PLACE).read_text() == before


def test_the_books_go_only_when_asked(tmp_path: Path) -> None:
    """--purge removes the ledger; without it, it stays; a link in its place is never followed."""
    install(tmp_path)
    ledger = put(tmp_path, Path("/var/lib/gpushare/broker.sqlite"), "books")
    installing.uninstall(tmp_path)
    assert ledger.read_text() == "books"
    install(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    ledger.parent.rename(elsewhere)
    ledger.parent.symlink_to(elsewhere)
    installing.uninstall(tmp_path, purge=True)
    assert (elsewhere / "broker.sqlite").exists()
    ledger.parent.unlink()
    elsewhere.rename(ledger.parent)
    install(tmp_path)
    installing.uninstall(tmp_path, purge=True)
    assert not ledger.parent.exists()


def test_a_command_that_fails_says_what_it_said() -> None:
    """The admin reads the system's own words."""
    with pytest.raises(InstallError, match="no such thing"):
        installing.run_command([sys.executable, "-S", "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(InstallError, match="failed"):
        installing.run_command(["/no/such/program"])


@pytest.mark.parametrize(
    ("user", "config"), [("root", "/a"), ("Ana B", "/a"), ("x\ny", "/a"), ("g", "a"), ("g", "/a'b")]
)
def test_what_cannot_stand_in_a_unit_is_refused(user: str, config: str) -> None:
    """A name or a path never becomes another line of a unit."""
    with pytest.raises(WrongWordError, match="write"):
        Service(user, Path(config), Path("/usr/bin/python3")).files()


def test_only_root_may_and_only_with_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are told with the command that works."""
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(InstallError, match="sudo"):
        check_may_change(Path("/"), "install-service")
    check_may_change(Path("/elsewhere"), "install-service")
    if not machine.has_systemd():
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        with pytest.raises(InstallError, match="systemd does not run"):
            check_may_change(Path("/"), "install-service")


def test_the_example_is_the_default() -> None:
    """A new service treats everybody alike, and ends nothing."""
    found = Configuration.parse(EXAMPLE)
    assert found == Configuration()
    said = "\n".join(
        line.removeprefix("# ") if " = " in line or "# [" in line else line for line in EXAMPLE.split("\n")
    )
    assert Configuration.parse(said).losses == {Loss.JOB_STOPPED_AFTER_GRACE}


def test_the_units_confine_what_they_start() -> None:
    """The broker has no rights but its account's, and can see other users' processes and the GPUs."""
    service = Service("gpushare", TOML, Path("/opt/a b/100%/python"), Path("/usr/bin/python3"), ("proc",)).files()
    broker, ending = service[UNITS / "gpushare.service"], service[UNITS / "gpushare-ending@.service"]
    assert {"NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict"} <= set(broker.splitlines())
    assert {"User=gpushare", "SupplementaryGroups=proc"} <= set(broker.splitlines())
    keys = {line.partition("=")[0] for line in broker.splitlines()}
    assert keys.isdisjoint(
        {"PrivateUsers", "PrivateDevices", "ProtectClock", "DeviceAllow", "ProtectProc", "ProcSubset"}
    )
    assert 'ExecStart="/opt/a b/100%%/python" -I' in broker
    assert "CapabilityBoundingSet=CAP_KILL" in ending
    assert "SocketMode=0660" in service[UNITS / "gpushare-ending.socket"]
    assert "SocketMode=0666" in service[UNITS / "gpushare.socket"]
    assert not any(line.count(":") for line in service[Path("/etc/sysusers.d/gpushare.conf")].splitlines())


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed here")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    """Every key and value is one that systemd knows."""
    put(tmp_path, TOML, TURNED_ON)
    install(tmp_path)
    units = sorted(str(path) for path in below(tmp_path, UNITS).iterdir())
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(units) == 4
