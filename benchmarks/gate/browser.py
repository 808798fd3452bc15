"""Empty cells back to back over a kernel's WebSocket in a real Chromium, as *run all* sends them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from benchmarks.frontend.browser import chromium

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.sync_api import Browser

    from benchmarks.gate.plan import Plan
    from benchmarks.gate.round_trips import Times
    from benchmarks.metering.fleet import Member

__all__ = ["measure"]

_WARM_UP_CELLS: Final = 5
# Each cell is sent when the one before has its reply and the kernel is idle again.
_EXECUTE: Final = """
async ([address, cells]) => {
  const socket = new WebSocket(address);
  const session = crypto.randomUUID();
  let hear = () => undefined;
  socket.onmessage = event => hear(JSON.parse(event.data));
  await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = reject; });
  const execute = () => new Promise(resolve => {
    const id = crypto.randomUUID();
    let left = 2;
    hear = message => {
      if (message.parent_header.msg_id !== id) { return; }
      const idle = message.header.msg_type === 'status' && message.content.execution_state === 'idle';
      if (idle || message.header.msg_type === 'execute_reply') { left -= 1; }
      if (left === 0) { resolve(); }
    };
    const header = { msg_id: id, msg_type: 'execute_request', session, username: '', version: '5.3' };
    const content = { code: '', silent: false, store_history: false, stop_on_error: false, allow_stdin: false };
    socket.send(JSON.stringify({ channel: 'shell', header, parent_header: {}, metadata: {}, content }));
  });
  const times = [];
  for (let count = 0; count < cells; count += 1) {
    const began = performance.now();
    await execute();
    times.push(performance.now() - began);
  }
  socket.close();
  return times;
}
"""


def measure(members: Mapping[str, Member], plan: Plan) -> Times:
    """Interleaved windows, in another order in each round.

    Raises:
        NoChromiumError: there is no Chromium.
    """
    found: Times = defaultdict(list)
    names = list(members)
    with chromium() as browser:
        for number in range(plan.browser_windows):
            for place in range(len(names)):
                name = names[(place + number) % len(names)]
                found[name].append(_window(browser, members[name], plan.browser_cells))
    return dict(found)


def _window(browser: Browser, member: Member, cells: int) -> list[float]:
    page = browser.new_page()
    try:
        server = member.server
        # Of the server's pages the one whose policy lets it open a WebSocket.
        page.goto(f"{server.url}login")
        channels = f"{server.url.replace('http', 'ws', 1)}api/kernels/{member.kernel_id}/channels?token={server.token}"
        times: list[float] = page.evaluate(_EXECUTE, [channels, cells + _WARM_UP_CELLS])
        return times[_WARM_UP_CELLS:]
    finally:
        page.close()
