"""Everything that the panel says, with the moment, beside what the machine shows then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from jupyter_gpushare.devices.simulated.source import SimulatedSource

__all__ = ["Said", "Witness"]

_LISTEN = """
() => {
  const state = document.querySelector('[data-testid="gpushare-state"]');
  window.said = [];
  const note = () => window.said.push([Date.now() / 1000, state.dataset.state, state.innerText]);
  new MutationObserver(note).observe(state, {attributes: true, childList: true, subtree: true, characterData: true});
  note();
}
"""
_DEADLINE_S = 60.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class Said:
    """What the panel said at one moment (seconds since the epoch), and what the machine had shown until then.

    Attributes:
        held: bytes of the process at each look in the second before, the newest last; at least at the nearest look.
    """

    at: float
    code: str
    text: str
    held: tuple[int, ...]


class Witness:
    """Watches the panel of *page* and the GPU memory of process *pid*; the panel must stay where it is."""

    def __init__(self, page: Page, devices: SimulatedSource, pid: int) -> None:
        self._page, self._devices, self._pid = page, devices, pid
        self._seen: list[tuple[float, int]] = []
        page.evaluate(_LISTEN)

    def held(self) -> int:
        """Bytes that the process holds now, as the machine itself says."""
        uses = (held for use in self._devices.read() for held in use.processes or ())
        return sum(held.memory.value or 0 for held in uses if held.pid == self._pid)

    def until(self, code: str) -> list[Said]:
        """Watch until the panel says *code*; everything that was said so far."""
        give_up = time.monotonic() + _DEADLINE_S
        while time.monotonic() < give_up:
            self._seen.append((time.time(), self.held()))
            told = self._page.evaluate("() => window.said")
            if told[-1][1] == code:
                self._seen.append((time.time(), self.held()))
                return [self._beside(*each) for each in told]
            self._page.wait_for_timeout(_LOOK_S * 1000)
        raise AssertionError(f"the panel did not say {code}, but {[code for _, code, _ in told]}")

    def _beside(self, at: float, code: str, text: str) -> Said:
        near = [held for seen_at, held in self._seen if at - 1 <= seen_at <= at + 2 * _LOOK_S]
        _, nearest = min(self._seen, key=lambda seen: abs(seen[0] - at))
        return Said(at, code, " ".join(text.split()), tuple(near or [nearest]))
