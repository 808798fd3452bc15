"""What a watcher is sent when frames come faster than they leave."""

from __future__ import annotations

import json
from typing import Any

from jupyter_gpushare.session.stream import Frame
from tests.session.conftest import API


async def test_the_newest_frame_follows_one_that_is_on_its_way(jp_ws_fetch: Any, session: Any, until: Any) -> None:
    """The first numbers often come while the greeting is being sent: they are sent next, what lay between is not."""
    socket = await jp_ws_fetch(*API, "stream")
    (watcher,) = session._watchers
    frames = [Frame(session._render()) for _ in range(3)]
    first, between, newest = (frame._snapshot.seq for frame in frames)
    await until(lambda: watcher._written is not None and watcher._written.done())
    for frame in frames:
        watcher.show(frame)
    seen = [json.loads(await socket.read_message())["seq"]]
    # A frame of the live session may be newer still and take its place.
    while max(seen) < newest:
        seen.append(json.loads(await socket.read_message())["seq"])
    assert first in seen
    assert between not in seen
    socket.close()
