"""The demo's hub, started as people start it: signed in with what it prints, ended with Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from jupyter_gpushare.demo.hub.plan import HubError, HubPlan, Person, find_proxy
from jupyter_gpushare.demo.hub.visitor import Form, Visitor
from jupyter_gpushare.demo.processes import marked_processes

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable


async def _look(facts: dict[str, Any]) -> dict[str, str]:
    """What each of the people reads on the spawn page and on the overview."""
    read = {}
    for name, password in facts["passwords"].items():
        visitor = await Visitor.sign_in(facts["url"], name, password, 60)
        try:
            overview = await visitor.page(facts["pages"].removeprefix(facts["url"]))
            overview.raise_for_status()
            read[name] = (await visitor.spawn_page()).text + Form(overview.text).text
        finally:
            await visitor.close()
    return read


@pytest.mark.hub
def test_the_demos_hub_lets_in_whom_it_says_and_leaves_nothing_behind(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Address and passwords are the printed ones, the pages say that all is simulated, Ctrl-C ends every process."""
    demo = start("demo", "--hub", "--json", "--no-browser", "--port", "0", "--deadline", "170")
    assert demo.stdout is not None
    facts = json.loads(demo.stdout.readline())
    read = asyncio.run(_look(facts))
    assert set(read) == {"ana", "bo", "cy"}
    assert all("simulated" in text.lower() for text in read.values()), read
    root = Path(facts["directory"])
    running = marked_processes(root)
    assert {"sweep-1", "sweep-2", "sweep-3"} <= {word for process in running for word in process.cmdline()}
    told = {value for process in running for value in _environment(process).values()}
    assert told.isdisjoint(facts["passwords"].values()), "a password is in a process's environment"

    os.kill(demo.pid, signal.SIGINT)
    assert demo.wait(90) == 0
    assert not root.exists()
    assert marked_processes(root) == []
    assert list((tmp_path / "temporary").glob("gpushare-demo-*")) == []


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.NoSuchProcess:
        return {}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["demo", "--hub", "--real"], "--hub shows simulated devices in a directory of its own; leave out --real"),
        (["demo", "--hub", "--lab-dir", "here"], "leave out --real and --lab-dir"),
    ],
)
def test_a_hub_of_ones_own_is_no_demo(
    arguments: list[str], told: str, gpushare: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """What the demo's hub cannot do is said at once, and nothing starts."""
    ended = gpushare(*arguments)
    assert ended.returncode == 1
    assert told in " ".join((ended.stdout + ended.stderr).split())


def test_without_a_proxy_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JupyterHub's proxy comes from elsewhere than Python's packages: the message says from where."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("jupyter_gpushare.demo.hub.plan._CHECKOUT", tmp_path)
    with pytest.raises(HubError, match="npm install -g configurable-http-proxy"):
        find_proxy()


def test_the_passwords_are_kept_for_this_user_alone(tmp_path: Path) -> None:
    """The plan, which the hub's process reads, holds passwords: nobody else may read it, and it comes back whole."""
    plan = HubPlan(
        directory="/d", people=(Person("ana", ("team-a",)),), policy="", port=1, hub_port=2, proxy_port=3,
        service_port=4, proxy=("proxy",),
    )  # fmt: skip
    plan.write(tmp_path / "plan")
    assert (tmp_path / "plan").stat().st_mode & 0o777 == 0o600
    assert HubPlan.read(tmp_path / "plan") == plan
    assert plan.people[0].password != Person("ana").password


PAGE = """<title>t</title><form method="get" action="/search"><input name="q" value="1"></form>
<form method="POST" action="/hub/spawn?x=1"><input type="hidden" name="_xsrf" value="s">
<input type="radio" name="share" value="0.5"><input type="radio" name="share" value="1" checked>
<input type="radio" name="share" value="4" disabled><input type="checkbox" name="more" value="y">
<input name="off" value="no" disabled><button name="go" value="now">Start</button></form>
<input name="elsewhere" value="z"><script>var hidden = "text"</script><p>Half &amp; half</p>"""


def test_a_form_is_read_as_a_browser_sends_it() -> None:
    """Hidden fields and what is checked are sent; what is disabled, unchecked or in another form is not."""
    form = Form(PAGE, "/hub/spawn")
    assert form.action == "/hub/spawn?x=1"
    assert form.fields == {"_xsrf": "s", "share": "1"}
    assert form.choices == {"share": ["0.5", "1", "4"], "more": ["y"], "go": ["now"]}
    assert form.unavailable == {"4"}
    assert form.text == "t Start Half & half"
    assert Form(PAGE, "/elsewhere").action is None
