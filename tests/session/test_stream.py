"""What a watcher is sent when frames come faster than they leave."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jupyter_gpushare.session.stream import Frame
from tests.session.conftest import API


# One reading at the start and none after it, so that every later frame is the test's own.
@pytest.mark.parametrize("gpushare_options", [{"interval_s": 3600.0, "background_interval_s": 3600.0}])
async def test_the_newest_frame_follows_one_that_is_on_its_way(jp_ws_fetch: Any, session: Any, until: Any) -> None:
    """The first numbers often come while the greeting is being sent: they are sent next, what lay between is not."""
    socket = await jp_ws_fetch(*API, "stream")
    while json.loads(await socket.read_message())["state"]["code"] == "READING":
        continue
    (watcher,) = session._watchers
    await until(lambda: watcher._written is not None and watcher._written.done())
    frames = [Frame(session._render()) for _ in range(3)]
    for frame in frames:
        watcher.show(frame)
    first, _, newest = (frame._snapshot.seq for frame in frames)
    assert [json.loads(await socket.read_message())["seq"] for _ in range(2)] == [first, newest]
    socket.close()
