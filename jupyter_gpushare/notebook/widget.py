"""``GpuShareWidget()``: the share, live in a cell's output."""

from __future__ import annotations

import threading
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets

from jupyter_gpushare.notebook.address import ServerError
from jupyter_gpushare.notebook.card import UNKNOWN, Card, Figure, card_of, problem_card
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.markup import STATIC
from jupyter_gpushare.notebook.parking_facts import MOVED_STATUSES
from jupyter_gpushare.notebook.server import Server
from jupyter_gpushare.notebook.stream import Stream
from jupyter_gpushare.notebook.widget_actions import ACTIONS, buttons_of

if TYPE_CHECKING:
    from jupyter_gpushare.notebook.view import KernelView, Parking

__all__ = ["GpuShareWidget"]

#: How long a console waits for the first view before it prints what there is.
_FIRST_VIEW_S: Final = 1.0


class GpuShareWidget(anywidget.AnyWidget):
    """A live card of this session's share, with buttons to hand it back and to keep it.

    It follows the server's stream while it is displayed, in a thread, so that it moves while a cell runs and while
    this kernel is parked. What it sends to the page changes only when something that is shown changes.
    """

    _esm = STATIC / "widget.js"
    _css = STATIC / "widget.css"

    #: What is shown, as plain JSON: the card, its buttons, and the outcome of the last one that was pressed.
    view = traitlets.Dict().tag(sync=True)

    def __init__(self, **kwargs: Any) -> None:
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self._first_view = threading.Event()
        self._card = Card("GPU share", Figure(UNKNOWN, "connecting"), notes=("Connecting to the server…",))
        self._notice: Card | None = None
        self._parking: Parking | None = None
        self._turn = 0
        # Zero instead of None asks the page to count the places where the widget is displayed.
        super().__init__(_view_count=0, **kwargs)
        self.observe(self._displays_changed, names="_view_count")
        self.on_msg(self._on_message)
        self._publish()

    def close(self) -> None:
        """Stop following and remove the widget everywhere."""
        self._unfollow()
        super().close()

    def __repr__(self) -> str:
        return text_of(self._card)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self._follow()
        self._first_view.wait(_FIRST_VIEW_S)
        return super()._repr_mimebundle_(**kwargs)

    def _follow(self) -> None:
        with self._lock:
            if self._stream is not None:
                return
            try:
                server = Server.from_environment()
            except ServerError as error:
                self._show_problem(str(error))
                return
            self._stream = Stream(server, on_view=self._show_view, on_problem=self._show_problem)
            self._stream.start()

    def _unfollow(self) -> None:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.stop()

    def _displays_changed(self, change: Any) -> None:
        self._follow() if change["new"] else self._unfollow()

    def _show_view(self, view: KernelView) -> None:
        self._note(view.kernel.parking)
        self._show(card_of(view))

    def _note(self, parking: Parking | None) -> None:
        """Each park begins a new turn, and what was pressed before it is answered no more."""
        was, self._parking = self._parking, parking
        if _is_moved(parking) and not _is_moved(was):
            self._turn += 1
            self._notice = None

    def _show_problem(self, problem: str) -> None:
        self._parking = None
        self._show(problem_card(problem, ("Release still frees cached memory in this notebook.",)))

    def _show(self, card: Card) -> None:
        self._card = card
        self._publish()
        self._first_view.set()

    def _publish(self) -> None:
        notice = None if self._notice is None else asdict(self._notice)
        buttons = [asdict(button) for button in buttons_of(self._parking)]
        self.view = {"card": asdict(_at_rest(self._card)), "notice": notice, "buttons": buttons, "turn": self._turn}

    def _on_message(self, _: Any, content: Any, buffers: Any) -> None:  # noqa: ARG002  # the interface's
        action = content.get("action") if isinstance(content, dict) else None
        if not isinstance(action, str) or action not in ACTIONS:
            return
        # A press that waited in front of a parked kernel was meant for the time before.
        if content.get("turn") == self._turn:
            self._notice = ACTIONS[action]()
            self._publish()
        self.send({"answered": action})


def _is_moved(parking: Parking | None) -> bool:
    return parking is not None and parking.status in MOVED_STATUSES


def _at_rest(card: Card) -> Card:
    """*card* without the words that a countdown changes each second: the page writes those itself."""
    if card.state is None or card.state.countdown is None:
        return card
    return replace(card, state=replace(card.state, text=""))
