"""A real Jupyter Server with our extension, over a source of devices that tests set by hand."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from tornado.httpclient import HTTPClientError  # `refusal` is for callers at run time

from tests.session.fake_source import DyingHolderSource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

API = ("gpushare", "api", "v1")


def refusal(error: HTTPClientError) -> Any:
    """The JSON that an error answer carries."""
    assert error.response is not None
    return json.loads(error.response.body)


@pytest.fixture(name="source")
def _source() -> DyingHolderSource:
    return DyingHolderSource()


@pytest.fixture(name="share")
def _share() -> str:
    return "0.5"


@pytest.fixture(name="server_options")
def _server_options() -> dict[str, Any]:
    return {}


@pytest.fixture(name="gpushare_options")
def _gpushare_options() -> dict[str, Any]:
    return {}


@pytest.fixture(name="origin")
def _origin(http_server: Any, jp_http_port: int) -> str:  # the server must listen
    """Host and port of the test's server, for callers that are not its user."""
    return f"localhost:{jp_http_port}"


@pytest.fixture
def jp_server_config(
    source: Any, share: str, server_options: dict[str, Any], gpushare_options: dict[str, Any], tmp_path: Path
) -> dict[str, Any]:
    """The server of each test: fast readings, the test's own devices."""
    return {
        "ServerApp": {
            "jpserver_extensions": {"jupyter_gpushare": True, "jupyter_server_terminals": True},
            **server_options,
        },
        "GpuShare": {
            "open_source": lambda environ: source,  # noqa: ARG005
            "share": share,
            "interval_s": 0.05,
            "background_interval_s": 0.1,
            "release_deadline_s": 5.0,
            "state_directory": str(tmp_path / "state"),
            "lock_directory": str(tmp_path / "locks"),
            "broker": "off",  # another test's may run on this machine
            **gpushare_options,
        },
        "MultiKernelManager": {"default_kernel_name": "python3"},
    }


@pytest.fixture(autouse=True)
def _forget_default_provisioner() -> Iterator[None]:
    yield
    KernelProvisionerFactory.clear_instance()


@pytest.fixture(autouse=True)
def _begun(jp_serverapp: Any, jp_asyncio_loop: asyncio.AbstractEventLoop) -> None:
    """Do what a server does once its loop runs; pytest-jupyter's does not."""
    extension = jp_serverapp.web_app.settings["jupyter_gpushare"]
    jp_asyncio_loop.run_until_complete(extension._start_jupyter_server_extension(jp_serverapp))


@pytest.fixture(name="api")
def _api(jp_fetch: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Call a route as the server's user; the answer's JSON."""

    async def call(*path: str, body: Any = None, **options: Any) -> Any:
        if body is not None:
            options = {"method": "POST", **options, "body": json.dumps(body)}
        return json.loads((await jp_fetch(*API, *path, **options)).body)

    return call


@pytest.fixture(name="session")
def _session(jp_serverapp: Any) -> Any:
    """The live session inside the server."""
    return jp_serverapp.web_app.settings["jupyter_gpushare"].session


@pytest.fixture(name="until")
def _until() -> Callable[..., Awaitable[Any]]:
    """Wait until something asynchronous gives a true value, and give that; fails after a generous deadline."""

    async def until(probe: Callable[[], Any], *, deadline_s: float = 60) -> Any:
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            value = probe()
            value = await value if asyncio.iscoroutine(value) else value
            if value:
                return value
            await asyncio.sleep(0.02)
        raise AssertionError(f"nothing after {deadline_s} s")

    return until


@pytest.fixture(name="start_kernel")
def _start_kernel(jp_serverapp: Any, client_of: Any) -> Callable[..., Awaitable[str]]:
    """Start a real, idle ipykernel that a notebook shows; its id."""

    async def start_kernel(path: str = "eda.ipynb") -> str:
        model = await jp_serverapp.session_manager.create_session(
            path=path, name=path, type="notebook", kernel_name="python3"
        )
        kernel_id: str = model["kernel"]["id"]
        await client_of(kernel_id).wait_for_ready(timeout=60)
        return kernel_id

    return start_kernel


@pytest.fixture(name="client_of")
def _client_of(jp_serverapp: Any) -> Iterator[Callable[[str], Any]]:
    """A kernel client, its channels running; stopped when the test ends."""
    clients: list[Any] = []

    def client_of(kernel_id: str) -> Any:
        client = jp_serverapp.kernel_manager.get_kernel(kernel_id).client()
        client.start_channels()
        clients.append(client)
        return client

    yield client_of
    for client in clients:
        client.stop_channels()


@pytest.fixture(name="release")
def _release(api: Any) -> Any:
    """Start a release as an owner who agrees to whatever is announced."""

    async def release(level: str, kernel_id: str | None = None) -> Any:
        body = {"level": level, "kernel_id": kernel_id}
        try:
            return await api("releases", body=body)
        except HTTPClientError as error:
            announced = refusal(error)
            assert announced["confirm"], announced
            return await api("releases", body=body | {"confirm": announced["confirm"]})

    return release


@pytest.fixture(name="ended")
def _ended(api: Any, release: Any, until: Any) -> Any:
    """Start a release, agreeing to what is announced, and wait until it ended."""

    async def ended(level: str, kernel_id: str | None = None) -> dict[str, Any]:
        begun = await release(level, kernel_id)

        async def final() -> Any:
            now = await api("releases", begun["id"])
            return now if now["status"] != "running" else None

        result: dict[str, Any] = await until(final)
        return result

    return ended
