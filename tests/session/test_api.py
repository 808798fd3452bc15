"""What the REST routes and the stream say, checked against the OpenAPI document."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.session.openapi import document
from tests.session.conftest import API, refusal
from tests.session.fake_source import GIB


def check(body: Any, name: str) -> None:
    """Assert that *body* is what the document calls *name*."""
    schema = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
    Draft202012Validator(schema).validate(body)


def test_the_document_is_valid_openapi() -> None:
    """Tools can read the description of the API."""
    validate(document())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("session", "Snapshot"),
        ("devices", "DevicesAnswer"),
        ("kernels", "KernelsAnswer"),
        ("processes", "ProcessesAnswer"),
        ("history", "HistoryModel"),
        ("releases", "ReleasesAnswer"),
    ],
)
async def test_each_route_answers_as_documented(api: Any, path: str, name: str) -> None:
    """Every GET gives exactly the type that the document promises."""
    check(await api(path), name)


async def test_the_served_document_is_the_one_that_is_tested(api: Any) -> None:
    """What a client downloads is what these tests validate against."""
    assert await api("openapi.json") == json.loads(json.dumps(document()))


async def test_a_kernel_row_has_its_own_bytes_and_its_notebook(
    api: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """A kernel's row shows what its process holds, not what the device holds, under the notebook's path."""
    kernel_id = await start_kernel("train.ipynb")
    source.hold(session.kernels.pid(kernel_id), 6 * GIB)
    source.hold(1, 7 * GIB)
    snapshot = await api("session")
    (row,) = snapshot["kernels"]
    assert (row["path"], row["memory"]) == ("train.ipynb", {"value": 6 * GIB, "attribution": "exact", "reason": ""})
    assert snapshot["memory"]["value"] == 6 * GIB
    assert row["levels"] == ["park", "free_cache", "end_kernel"]
    assert row["note"] is None


async def test_others_are_a_sum_and_a_count(api: Any, source: Any) -> None:
    """Other people's processes appear as bytes and a number, never with a pid or a name."""
    source.hold(1, 7 * GIB)
    (device,) = await api("devices") and (await api("devices"))["devices"]
    assert (device["others"]["value"], device["other_holders"], device["mine"]["value"]) == (8 * GIB, 1, 0)
    assert "processes" not in device


async def test_the_server_itself_has_a_row(api: Any, source: Any) -> None:
    """GPU use of the server's own process is shown outside the kernels."""
    source.hold(os.getpid(), GIB)
    (row,) = (await api("processes"))["processes"]
    assert (row["kind"], row["name"], row["memory"]["value"]) == ("server", "Jupyter Server", GIB)


async def test_a_terminal_has_a_row_of_its_own(api: Any, jp_fetch: Any, jp_serverapp: Any, source: Any) -> None:
    """What a terminal holds is shown under the terminal's name and is no kernel's."""
    name = json.loads((await jp_fetch("api", "terminals", method="POST", allow_nonstandard_methods=True)).body)["name"]
    terminals = jp_serverapp.web_app.settings["terminal_manager"]
    source.hold(terminals.get_terminal(name).ptyproc.pid, 2 * GIB)
    (row,) = (await api("processes"))["processes"]
    assert row["kind"] == "terminal"
    assert row["name"].startswith(f"Terminal {name}")
    await terminals.terminate(name, force=True)


async def test_the_share_is_resolved_on_its_device(api: Any) -> None:
    """Half a GPU is half of the device's usable memory."""
    share = (await api("session"))["share"]
    assert (share["text"], share["source"], share["request"]) == ("0.5", "configuration", 39 * GIB // 2)
    assert share["devices"] == ["GPU-0000"]


async def test_an_unknown_kernel_is_named(api: Any) -> None:
    """Asking for a kernel that is not there gives a 404 that names it."""
    with pytest.raises(HTTPClientError) as caught:
        await api("kernels", "no-such-kernel")
    assert caught.value.code == 404
    body = refusal(caught.value)
    check(body, "ErrorAnswer")
    assert body["error"]["code"] == "UNKNOWN_KERNEL"
    assert "no-such-kernel" in body["message"]


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"level": "everything"}, "level"),
        ({"level": "end_kernel"}, "kernel_id"),
        ({"level": "end_all", "kernel_id": "x"}, "kernel_id"),
        ({"level": "end_kernel", "kernel_id": "x", "force": True}, "force"),
        ({"level": "free_cache", "confirm": True}, "confirm"),
        ({}, "level"),
        ([], "array"),
    ],
)
async def test_a_wrong_release_names_the_field(api: Any, body: Any, word: str) -> None:
    """A body with a wrong field is refused with 400, and the message names that field."""
    with pytest.raises(HTTPClientError) as caught:
        await api("releases", body=body)
    assert caught.value.code == 400
    assert word in refusal(caught.value)["message"]


@pytest.mark.parametrize("body", ["not json", '"' + "x" * 20000 + '"', b"\xff\xfe", "[" * 10000])
async def test_garbage_is_refused(jp_fetch: Any, body: Any) -> None:
    """Bytes that are no request never reach the session."""
    with pytest.raises(HTTPClientError) as caught:
        await jp_fetch(*API, "releases", method="POST", body=body)
    assert caught.value.code == 400


async def test_looking_is_not_activity(api: Any, jp_serverapp: Any) -> None:
    """Our own polling never keeps an idle server alive."""
    before = jp_serverapp.web_app.last_activity()
    await api("session")
    await api("history")
    assert jp_serverapp.web_app.last_activity() == before


async def test_the_stream_shows_at_once_and_goes_on(
    jp_ws_fetch: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """The first frame comes when the socket opens, the next ones follow what happens."""
    kernel_id = await start_kernel()
    socket = await jp_ws_fetch(*API, "stream")
    first = json.loads(await socket.read_message())
    check(first, "Snapshot")
    assert first["type"] == "snapshot"
    source.hold(session.kernels.pid(kernel_id), 3 * GIB)
    while (frame := json.loads(await socket.read_message()))["memory"]["value"] != 3 * GIB:
        check(frame, "Snapshot")
    assert frame["seq"] > first["seq"]
    socket.close()


async def test_two_tabs_share_one_sampler(jp_ws_fetch: Any, source: Any, session: Any, until: Any) -> None:
    """A second tab sees the same frames, and closing both ends the reading."""
    sockets = [await jp_ws_fetch(*API, "stream") for _ in range(2)]
    frames = []
    for socket in sockets:
        while (frame := json.loads(await socket.read_message()))["state"]["code"] == "READING":
            continue
        frames.append(frame)
    assert frames[0]["devices"] == frames[1]["devices"] != []
    for socket in sockets:
        socket.close()
    await until(lambda: session.meter.watchers == 0)
    rest = source.reads
    await until(lambda: session.meter.sleeps)
    assert source.reads - rest <= 1


async def test_history_grows_while_somebody_looks(api: Any, jp_ws_fetch: Any, until: Any) -> None:
    """The chart's points are there for a panel that opens later."""
    socket = await jp_ws_fetch(*API, "stream")

    async def points() -> bool:
        return len((await api("history"))["at"]) >= 3

    await until(points)
    history = await api("history")
    assert len(history["at"]) == len(history["memory"]) == len(history["utilisation"])
    assert history["at"] == sorted(history["at"])
    socket.close()


async def test_metrics_have_no_notebook_names(
    api: Any, jp_fetch: Any, source: Any, session: Any, start_kernel: Any
) -> None:
    """Prometheus gets the numbers without anybody's file names."""
    kernel_id = await start_kernel("secret-project.ipynb")
    source.hold(session.kernels.pid(kernel_id), 5 * GIB)
    await api("session")
    text = (await jp_fetch("metrics")).body.decode()
    assert f"gpushare_session_memory_bytes {5 * GIB:.12g}".split()[0] in text
    assert float(text.split("\ngpushare_session_memory_bytes ")[1].split()[0]) == 5 * GIB
    assert "gpushare_kernels_holding 1.0" in text
    assert "secret-project" not in text


async def test_the_stream_names_a_new_notebook_soon(jp_ws_fetch: Any, start_kernel: Any) -> None:
    """A kernel that has just started appears under its notebook's path without anybody asking for it."""
    socket = await jp_ws_fetch(*API, "stream")
    await start_kernel("fresh.ipynb")
    while not any(kernel["path"] == "fresh.ipynb" for kernel in json.loads(await socket.read_message())["kernels"]):
        continue
    socket.close()
