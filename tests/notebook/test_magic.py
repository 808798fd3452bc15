"""`%gpushare`: what may be written, what completes, and what each command says and does."""

from __future__ import annotations

import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.completer import CompletionContext
from IPython.core.error import UsageError

from jupyter_gpushare.notebook import commands
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.magic import complete, parse
from tests.notebook.fake_frameworks import GB, FakeTorch
from tests.notebook.fake_server import KERNEL_ID, FakeServer, kernel, message, reading, view

if TYPE_CHECKING:
    from tests.notebook.fake_server import Seen

SHELL = SimpleNamespace(user_ns={"In": [], "model": 1, "x": 2, "_": 0}, user_ns_hidden={"In": 1})
LOSS = "Every variable of train.ipynb will be lost."


def completions(line: str) -> list[str]:
    """What the Tab key offers at the end of *line*."""
    context = CompletionContext("", line, cursor_position=len(line), cursor_line=0, limit=None)
    return [completion.text for completion in complete(context)["completions"]]


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("", ("status", [])),
        ("  status ", ("status", [])),
        ("release", ("release", [])),
        ("release --kernel --yes", ("release", ["--kernel", "--yes"])),
        ("keep 2h", ("keep", ["2h"])),
        ("keep off", ("keep", ["off"])),
        ("idle", ("idle", [])),
        ("idle never", ("idle", ["never"])),
        ("background allow", ("background", ["allow"])),
        ("help", ("help", [])),
        ("request 0.25..0.8", ("request", ["0.25..0.8"])),
    ],
)
def test_parse_reads_commands_and_options(line: str, read: Any) -> None:
    """A bare `%gpushare` is its status, and options belong to their command."""
    assert parse(line) == read


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("relaese", "'relaese' is no command of %gpushare. Did you mean release? There is: status, release, keep,"),
        ("hand-back", "'hand-back' is no command of %gpushare. There is: status,"),
        ("keep", "keep wants a word, for example: %gpushare keep 30m. There is: 30m, 1h, 2h, off."),
        ("request", "request wants a share, for example: %gpushare request 0.25..0.8"),
        ("request 0.5 0.8", "request wants one share, not 2, for example: %gpushare request 0.25..0.8"),
        ("request much", "request: "),
        ("keep ever", "'ever' is no word of keep of %gpushare. There is: 30m, 1h, 2h, off."),
        ("keep 2x", "keep: '2x' is no time span from a second to a week. Write for example 30m, 2h or 1h30m."),
        ("keep 2h 30m", "keep takes one word, not 2."),
        ("idle nevr", "Did you mean never?"),
        ("background 5", "'5' is no word of background of %gpushare. There is: allow, refuse."),
        ("resume now", "'now' is no option of resume of %gpushare. There is: none."),
        ("release --kernal", "'--kernal' is no option of release of %gpushare. Did you mean --kernel?"),
        ("status --yes", "'--yes' is no option of status of %gpushare. There is: none."),
        ("release --cache --kernel", "choose one"),
    ],
)
def test_a_wrong_word_is_named_beside_the_right_ones(line: str, said: str) -> None:
    """A typo costs one look: the message holds the wrong word and what would be right."""
    with pytest.raises(UsageError) as caught:
        parse(line)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%gpushare ", ["status", "release", "keep", "resume", "request", "idle", "background", "help"]),
        ("%gpushare re", ["release", "resume", "request"]),
        ("%gpushare request ", ["0.5", "0.25..0.8", "16GiB"]),
        ("%gpushare keep ", ["30m", "1h", "2h", "off"]),
        ("%gpushare keep o", ["off"]),
        ("%gpushare keep off ", []),
        ("%gpushare background ", ["allow", "refuse"]),
        ("  gpushare st", ["status"]),
        ("%gpushare release --", ["--cache", "--kernel", "--yes"]),
        ("%gpushare release --kernel --", ["--cache", "--yes"]),
        ("%gpushare status --", []),
        ("%gpushare nonsense ", []),
        ("%gpusha", []),
        ("release ", []),
        ("x = '%gpushare ", []),
    ],
)
def test_completion_knows_commands_and_their_options(line: str, words: list[str]) -> None:
    """Completion offers what is right at the cursor, and nothing in other lines."""
    assert completions(line) == words


def test_status_shows_the_server_s_view_and_what_failed_behind_the_scenes(server: FakeServer) -> None:
    """Status is the card, plus failures that would otherwise stay unseen."""
    text = text_of(commands.status(["This notebook's use could not be reported: gone."]))
    assert "½ GPU guaranteed, up to 1" in text
    assert "could not be reported: gone." in text
    assert [seen.method for seen in server.seen] == ["GET"]


def test_status_outside_a_server_says_what_is_missing_and_what_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """In plain IPython people learn what still works, with what this process holds by its own count."""
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(5 * GB, 2 * GB))
    text = text_of(commands.status([]))
    assert "not started as a kernel by a Jupyter server" in text
    assert "%gpushare release still frees cached memory" in text
    assert "`" not in text
    assert "hold 7.0 GB, as they count it" in text


def test_status_with_a_refused_token_has_the_remedy(server: FakeServer) -> None:
    """An expired token is a card with the way out, not an error in the cell."""
    server.refuses = True
    assert "Restart the kernel" in text_of(commands.status([]))


def test_release_frees_here_and_waits_for_a_sample_taken_since(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device's word is taken from after the release: an older sample is no proof."""
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(5 * GB, 2 * GB))
    asked: list[Seen] = []

    def sample(seen: Seen) -> None:
        asked.append(seen)
        if len(asked) == 3:
            server.view = view(at=time.time() + 1, kernel=kernel(memory=reading(5 * GB)))

    server.view = view(at=1.0, kernel=kernel(memory=reading(7 * GB)))
    server.on_request = sample
    text = text_of(commands.free_cache())
    assert "Released 2.0 GB of cached memory." in text
    assert "Attested by the device: this notebook held 7.0 GB, now 5.0 GB." in text
    assert {seen.method for seen in server.seen} == {"GET"}


def test_release_without_a_server_still_frees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeing needs nobody but the process itself; that no device attests it is said."""
    torch = FakeTorch(5 * GB, 2 * GB)
    monkeypatch.setitem(sys.modules, "torch", torch)
    text = text_of(commands.free_cache())
    assert torch.emptied == 1
    assert "Released 2.0 GB" in text
    assert "Not attested" in text


def test_release_kernel_announces_and_ends_nothing(server: FakeServer) -> None:
    """Without --yes people read what is lost, with their variables' names, and nothing is confirmed for them."""
    server.announced = [LOSS]
    text = text_of(commands.end_kernel(SHELL, confirm=False))
    assert LOSS in text
    assert "Lost with the kernel: model, x." in text
    assert "%gpushare release --kernel --yes" in text
    assert [seen.body["confirm"] for seen in server.seen] == [""]


def test_release_kernel_confirmed_says_what_the_server_does(server: FakeServer) -> None:
    """With --yes the server ends this kernel, and only this one, also where a cell started in between."""
    server.announced = [LOSS, f"A cell is running. {LOSS}"]
    assert "Ending train.ipynb…" in text_of(commands.end_kernel(SHELL, confirm=True))
    assert {(seen.body["level"], seen.body["kernel_id"]) for seen in server.seen} == {("end_kernel", KERNEL_ID)}
    assert len(server.seen) == 3


def test_release_kernel_confirmed_gives_up_where_things_keep_changing(server: FakeServer) -> None:
    """A server that announces something new each time is not agreed with for ever, and people are told so."""
    server.announced = [f"{number} cells are running. {LOSS}" for number in range(9)]
    text = text_of(commands.end_kernel(SHELL, confirm=True))
    assert "3 cells are running." in text
    assert "Nothing was ended" in text
    assert len(server.seen) == 4


def test_many_variables_are_counted_not_listed() -> None:
    """The announcement stays short in a long notebook."""
    shell = SimpleNamespace(user_ns={f"v{i}": i for i in range(12)}, user_ns_hidden={})
    assert commands._variables(shell) == "Lost with the kernel: v0, v1, v2, v3, v4 and 7 more."


def test_a_server_s_note_about_this_kernel_is_shown(server: FakeServer) -> None:
    """What the server has to say of this kernel reaches its notebook."""
    server.view = view(kernel=kernel(note=message("NOT_LOCAL", "This kernel runs on another machine.")))
    assert "runs on another machine" in text_of(commands.status([]))


def test_plain_ipython_has_the_magic_as_text(tmp_path: Any) -> None:
    """`%load_ext` in a console without Jupyter works, prints text, and unloads without a trace."""
    code = "%load_ext jupyter_gpushare\n%gpushare\n%gpushare help\n%reload_ext jupyter_gpushare\n%unload_ext jupyter_gpushare\n%gpushare"
    ran = subprocess.run(
        [sys.executable, "-m", "IPython", "--no-banner", "--no-simple-prompt", f"--ipython-dir={tmp_path}", "-c", code],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "No GPU share here" in ran.stdout
    assert "%gpushare release --kernel --yes" in ran.stdout
    assert "\x1b[34m" not in ran.stdout
    assert "`%gpushare` not found" in ran.stdout + ran.stderr
