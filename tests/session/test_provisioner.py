"""What a kernel is given at its start, and that a token is good for one kernel only."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.kernelspec import KernelSpec

from jupyter_gpushare.session.provisioner import api_url
from jupyter_gpushare.session.tokens import KernelTokens

if TYPE_CHECKING:
    from pathlib import Path


async def evaluate(client: Any, expression: str) -> Any:
    """The value of a Python expression inside a kernel."""
    msg_id = client.execute("", user_expressions={"it": f"__import__('json').dumps({expression})"})
    while (reply := await client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != msg_id:
        continue
    return json.loads(reply["content"]["user_expressions"]["it"]["data"]["text/plain"].strip("'"))


async def test_a_kernel_knows_its_server(start_kernel: Any, client_of: Any, jp_serverapp: Any, session: Any) -> None:
    """A kernel finds the server's address, its own id and a token that speaks for it."""
    kernel_id = await start_kernel()
    keys = ["GPUSHARE_SERVER_URL", "GPUSHARE_KERNEL_ID", "GPUSHARE_KERNEL_TOKEN"]
    url, own_id, token = await evaluate(client_of(kernel_id), f"[__import__('os').environ[k] for k in {keys}]")
    assert url == f"http://{jp_serverapp.ip}:{jp_serverapp.port}{jp_serverapp.base_url}gpushare/api/v1"
    assert own_id == kernel_id
    assert session.tokens.kernel_of(token) == kernel_id


async def test_a_restart_gives_a_new_token(start_kernel: Any, client_of: Any, jp_serverapp: Any, session: Any) -> None:
    """The token of the old process is dead after a restart; the kernel keeps its row."""
    kernel_id = await start_kernel()
    old = next(token for token, owner in session.tokens._kernels.items() if owner == kernel_id)
    await jp_serverapp.kernel_manager.restart_kernel(kernel_id)
    assert session.tokens.kernel_of(old) is None
    assert kernel_id in session.tokens._kernels.values()
    assert session.kernels.get(kernel_id).releases_cache


async def test_another_kernel_goes_on_as_before(jp_serverapp: Any, tmp_path: Path, api: Any, client_of: Any) -> None:
    """A kernel spec with a provisioner of its own starts untouched, and its row says what is missing."""
    spec = tmp_path / "plain"
    spec.mkdir()
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    provisioner = {"kernel_provisioner": {"provisioner_name": "local-provisioner"}}
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "plain", "language": "python", "metadata": provisioner})
    )
    jp_serverapp.kernel_spec_manager.kernel_dirs.append(str(tmp_path))
    kernel_id = await jp_serverapp.kernel_manager.start_kernel(kernel_name="plain")
    await client_of(kernel_id).wait_for_ready(timeout=60)
    (row,) = (await api("kernels"))["kernels"]
    assert row["note"]["code"] == "NO_PROVISIONER"
    assert row["levels"] == ["end_kernel"]
    assert isinstance(jp_serverapp.kernel_spec_manager.get_kernel_spec("plain"), KernelSpec)


@pytest.mark.parametrize(
    ("ip", "certfile", "sock", "expected"),
    [
        ("127.0.0.1", "", "", "http://127.0.0.1:8888/u/ann/gpushare/api/v1"),
        ("0.0.0.0", "", "", "http://127.0.0.1:8888/u/ann/gpushare/api/v1"),  # noqa: S104
        ("", "/cert", "", "https://127.0.0.1:8888/u/ann/gpushare/api/v1"),
        ("::", "", "", "http://[::1]:8888/u/ann/gpushare/api/v1"),
        ("10.1.2.3", "", "", "http://10.1.2.3:8888/u/ann/gpushare/api/v1"),
        ("", "", "/run/j.sock", "http+unix://%2Frun%2Fj.sock/u/ann/gpushare/api/v1"),
    ],
)
def test_the_address_reaches_the_server_from_its_own_machine(ip: str, certfile: str, sock: str, expected: str) -> None:
    """Whatever a server is bound to, a kernel on the same machine gets an address that works."""
    server = SimpleNamespace(ip=ip, port=8888, certfile=certfile, sock=sock, base_url="/u/ann/")
    assert api_url(server) == expected


def test_a_token_speaks_for_one_kernel() -> None:
    """Tokens of two kernels are not interchangeable, and a revoked one is nobody's."""
    tokens = KernelTokens()
    a, b = tokens.issue("A"), tokens.issue("B")
    assert (tokens.kernel_of(a), tokens.kernel_of(b)) == ("A", "B")
    tokens.revoke("A")
    assert (tokens.kernel_of(a), tokens.kernel_of(b), tokens.kernel_of("")) == (None, "B", None)
