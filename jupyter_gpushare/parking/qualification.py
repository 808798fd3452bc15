"""Which drivers passed every trial on this host: parking by itself is on by default only there.

Results are kept in one JSON file of the user's, by host and driver version. A trial is written down before it begins:
one that never ended, because the host hung, counts as failed for ever after, until it is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from jupyter_gpushare.parking.self_test import Outcome, TrialCode

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Qualifications", "host_id", "is_qualified"]

_FORMAT: Final = 1
_LARGEST_FILE: Final = 1 << 20
_NEEDED: Final[tuple[TrialCode, ...]] = ("SELF_TEST", "KILL_AFTER_RESUME", "BACKGROUND_SYNCHRONISE")
_NEVER_ENDED: Final = "it was begun and never ended: did the host hang?"


def host_id() -> str:
    """This host, without its name: a hash of its machine id (machine-id(5)), or of its name where it has none."""
    try:
        text = Path("/etc/machine-id").read_text().strip()
    except OSError:
        text = ""
    return hashlib.sha256((text or platform.node()).encode()).hexdigest()[:16]


def is_qualified(driver_version: str, data_dir: str | os.PathLike[str]) -> bool:
    """Whether *driver_version* passed ``jupyter gpushare doctor --qualify`` on this host.

    *data_dir* is Jupyter's data directory (`jupyter_core.paths.jupyter_data_dir`), where the results are kept.
    """
    return Qualifications.of_user(data_dir).is_qualified(driver_version)


class Qualifications:
    """The results in the file *path*, as far as they are of *host*."""

    def __init__(self, path: Path, host: str | None = None) -> None:
        self._path = path
        self._host = host_id() if host is None else host

    @classmethod
    def of_user(cls, data_dir: str | os.PathLike[str]) -> Qualifications:
        """Those kept in Jupyter's data directory."""
        return cls(Path(data_dir) / "gpushare" / "qualification.json")

    def outcomes(self, driver_version: str) -> Mapping[TrialCode, Outcome]:
        """What was tried with *driver_version* on this host, and how it went."""
        trials = _dict(_dict(_dict(self._read().get("hosts")).get(self._host)).get(driver_version))
        return {code: _outcome(code, trials[code]) for code in get_args(TrialCode) if code in trials}

    def is_qualified(self, driver_version: str) -> bool:
        """Whether every trial that parking by itself needs was passed. Without a version nothing is."""
        outcomes = self.outcomes(driver_version) if driver_version else {}
        return all(code in outcomes and outcomes[code].passed for code in _NEEDED)

    def may_freeze(self, driver_version: str) -> bool:
        """Whether parked programs can be stopped and continued with *driver_version* here."""
        freeze = self.outcomes(driver_version).get("FREEZE")
        return freeze is not None and freeze.passed

    def begin(self, driver_version: str, code: TrialCode) -> None:
        """Write down that a trial begins.

        Raises:
            OSError: it cannot be written.
        """
        self.record(driver_version, Outcome(code, passed=False, found=_NEVER_ENDED))

    def record(self, driver_version: str, outcome: Outcome) -> None:
        """Write down how a trial went, in place of how it went before.

        Raises:
            OSError: it cannot be written.
        """
        content = self._read()
        hosts = _dict(content.get("hosts"))
        versions = _dict(hosts.get(self._host))
        trial = {"passed": outcome.passed, "found": outcome.found, "at": time.time()}
        versions[driver_version] = _dict(versions.get(driver_version)) | {outcome.code: trial}
        self._write({"format": _FORMAT, "hosts": hosts | {self._host: versions}})

    def _read(self) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                content = _dict(json.loads(file.read(_LARGEST_FILE)))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if content.get("format") == _FORMAT else {}

    def _write(self, content: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        with unfinished.open("w") as file:
            json.dump(content, file, indent=1)
            file.flush()
            # A trial may hang the whole host: what was begun must be on the disk by then.
            os.fsync(file.fileno())
        unfinished.replace(self._path)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _outcome(code: TrialCode, trial: object) -> Outcome:
    content = _dict(trial)
    return Outcome(code, passed=content.get("passed") is True, found=str(content.get("found", "")))
