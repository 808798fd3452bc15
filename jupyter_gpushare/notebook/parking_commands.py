"""What ``%gpushare release | keep | resume | idle | background`` do: wishes about parking this very notebook."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.notebook.address import ServerError
from jupyter_gpushare.notebook.cache import free_cached
from jupyter_gpushare.notebook.card import Card, Figure, Row, State, problem_card, state_of
from jupyter_gpushare.notebook.duration import parse_duration, spoken
from jupyter_gpushare.notebook.parking_facts import decided_by, policy_words, seconds_words
from jupyter_gpushare.notebook.release import release_card
from jupyter_gpushare.notebook.server import Server
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from jupyter_gpushare.notebook.view import KernelView, Policy

__all__ = ["hand_back", "keep", "not_parked", "resume", "set_background", "set_idle"]

_OTHER_WAYS: Final = (
    Row("%gpushare release --cache", (Figure("give cached memory back; every variable stays"),)),
    Row("%gpushare release --kernel", (Figure("say what is lost if this notebook's kernel ends"),)),
)
#: These say that the server decided, and what. With any other error nobody did, and the cache can still be freed.
_DECIDED: Final = frozenset({"CANNOT_PARK", "REFUSED", "NEEDS_CONFIRMATION"})
#: What the server's clock and the way to it may add to a time.
_SLACK_S: Final = 30.0


def hand_back(when: str = "As soon as this cell has ended,") -> Card:
    """Have this notebook parked once no cell runs in it; where nobody can be asked, free its cached memory."""
    try:
        server = Server.from_environment()
        what_moves = _what_moves(server.view())
        server.park()
    except ServerError as error:
        return not_parked(error)
    text = f"{when} {what_moves}. Every variable stays; your next cell brings it back."
    return Card("Release", Figure(""), state=State("changing", "◷", text))


def not_parked(error: ServerError) -> Card:
    """Why this notebook is not parked, and what there is instead. Nothing is ended."""
    if error.reason == "NOTHING_HELD":
        return Card("Release", Figure(""), state=State("free", "○", str(error)))
    if error.code in _DECIDED:
        notes = ("Nothing was changed. Other ways to give memory back are above; neither ends anything unasked.",)
        return Card("Release", Figure(""), state=State("trouble", "!", str(error)), rows=_OTHER_WAYS, notes=notes)
    freed = release_card(free_cached(collect=True))
    return replace(freed, notes=(f"Not parked, only cached memory was freed: {error}", *freed.notes))


def keep(wish: str) -> Card:
    """Keep this notebook from being parked by itself for as long as *wish* says, or no longer with ``off``."""
    seconds = 0.0 if wish == "off" else parse_duration(wish)
    try:
        kept = Server.from_environment().keep(seconds)
    except ServerError as error:
        return problem_card(str(error))
    notes = []
    if kept.kept_until is not None and kept.kept_until < time.time() + seconds - _SLACK_S:
        notes.append(f"That is sooner than the {spoken(seconds)} you asked for: this server sets a bound.")
    if kept.kept_until is not None:
        notes.append("%gpushare release still hands it back at any time, and %gpushare keep off ends the keeping.")
    return Card("Keep", Figure(""), state=state_of(kept.message), notes=tuple(notes))


def resume() -> Card:
    """In a running cell everything is on the GPU already; what is left is to call off a release that was asked for."""
    try:
        server = Server.from_environment()
        parking = server.view().kernel.parking
        if parking is not None and parking.status == "asked":
            server.resume()
            return Card("Resume", Figure(""), state=State("mine", "✓", "Called off: your GPU memory stays on the GPU."))
    except ServerError as error:
        return problem_card(str(error))
    text = "Nothing to resume: a cell is running, so all of this notebook's GPU memory is on the GPU."
    return Card("Resume", Figure(""), state=State("mine", "●", text))


def set_idle(wish: str) -> Card:
    """When this notebook is parked by itself: a time span, ``never``, ``default``, or empty to see how it is."""
    if wish == "default":
        return _policy({"reset": True})
    if wish:
        return _policy({"idle_timeout_s": None if wish == "never" else parse_duration(wish)})
    return _policy({})


def set_background(wish: str) -> Card:
    """Whether threads and tasks keep this notebook from being parked: ``allow``, ``refuse``, or empty to see."""
    return _policy({"allow_background_work": wish == "allow"} if wish else {})


def _policy(wish: dict[str, object]) -> Card:
    try:
        server = Server.from_environment()
        policy = server.set_policy(wish) if wish else _policy_now(server)
    except ServerError as error:
        return problem_card(str(error))
    text = f"Parked {policy_words(policy)}, {decided_by(policy)}. Nothing is lost by it."
    return Card("Parking", Figure(""), state=State("free", "○", text), notes=(_background(policy),))


def _policy_now(server: Server) -> Policy:
    parking = server.view().kernel.parking
    if parking is None or parking.policy is None:
        raise ServerError("REFUSED", "This server does not say when it parks: it runs another jupyter_gpushare.")
    return parking.policy


def _background(policy: Policy) -> str:
    if policy.allow_background_work:
        return (
            "Background work is allowed: threads and tasks of yours do not keep it from being parked. One that uses "
            "the GPU meanwhile can crash this kernel. To go back: %gpushare background refuse"
        )
    return "Background work is refused: while threads or tasks of yours are alive, it is not parked."


def _what_moves(view: KernelView) -> str:
    """How much moves, and in about how many seconds, as far as it is known."""
    parking = view.kernel.parking
    memory = view.kernel.memory.value if parking is None or parking.memory is None else parking.memory
    moves = "your GPU memory moves" if memory is None else f"{Memory(memory).human} move"
    about = "" if parking is None or parking.expected_s is None else f" (about {seconds_words(parking.expected_s)} s)"
    return f"{moves} to host memory{about}"
