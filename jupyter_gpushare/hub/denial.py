"""Refusing to start a server, in a way that JupyterHub 5 and 6 show to the user and do not count as trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tornado.web import HTTPError

from jupyter_gpushare.hub.markup import safe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.message import Message

__all__ = ["AWAY", "NO_ROOM", "SEE_OTHER", "deny", "is_page"]

_UNPROCESSABLE: Final = 422
_MISCONFIGURED: Final = 500
#: Of a start that goes on elsewhere: the browser opens the page that `Location` names.
SEE_OTHER: Final = 303
#: Of a start that could succeed later.
NO_ROOM: Final = 409
#: Of a start that needs the broker, which is away ("failed dependency").
AWAY: Final = 424


def deny(
    message: Message,
    spawner: Any = None,
    *,
    by_admin: bool = False,
    status: int = 0,
    links: Mapping[str, str] | None = None,
    location: str = "",
) -> HTTPError:
    """Give the exception to raise so that no server starts and the user reads *message*.

    Args:
        message: what is wrong and what to do.
        spawner: the spawner whose start is refused, when it has begun to start.
        by_admin: whether an admin, not the user, has to change something.
        status: of the answer, where it says more than that the request was understood and cannot be met.
        links: addresses that help, by what they are called.
        location: where the browser goes on; for a page alone.
    """
    code = status or (_MISCONFIGURED if by_admin else _UNPROCESSABLE)
    html = _in_html(message, links or {}, location)
    error = _make_error(message, code, spawner, html)
    # Both hubs show this to the user in place of the exception's own text. Their spawn page is given the HTML under a
    # name that its template does not know (5.5 and 6.1), so that only the page of failed starts shows the links.
    error.jupyterhub_message = message.text  # type: ignore[attr-defined]
    if links:
        error.jupyterhub_html_message = html  # type: ignore[attr-defined]
    if location:
        # JupyterHub puts an exception's headers into its answer (handlers/pages.py, SpawnHandler, 5.0 to 6.1).
        error.headers = {"Location": location}  # type: ignore[attr-defined]
    return error


def is_page(spawner: Any) -> bool:
    """Whether a person on the hub's own spawn page started *spawner*, and no program over its REST interface."""
    handler = getattr(spawner, "handler", None)
    path = getattr(getattr(handler, "request", None), "path", "")
    hub = getattr(getattr(spawner, "hub", None), "base_url", "") or "/hub/"
    return path == f"{hub}spawn" or path.startswith(f"{hub}spawn/")


def _in_html(message: Message, links: Mapping[str, str], location: str) -> str:
    tail = " ".join(f'<a href="{safe(address)}">{safe(name)}</a>' for name, address in links.items())
    # Where a hub under load shows its own page of failed starts first, as it does after a second, that one goes on too.
    goes_on = f'<meta http-equiv="refresh" content="0; url={safe(location)}">' if location else ""
    return f"{safe(message.text)} {tail}{goes_on}".rstrip()


def _make_error(message: Message, status: int, spawner: Any, html: str) -> HTTPError:
    try:
        from jupyterhub.spawner import SpawnException  # type: ignore[import-untyped]
    except ImportError:  # JupyterHub 5
        if spawner is not None:
            _leave_uncounted(spawner)
        return HTTPError(status, message.text, reason=message.code)
    error: HTTPError = SpawnException(message.text, reason=message.code, status_code=status, message_html=html)
    return error


def _leave_uncounted(spawner: Any) -> None:
    """Keep a refusal from counting as a failed start.

    JupyterHub 5 counts every exception towards ``consecutive_failure_limit`` and then ends itself, so that any
    user could stop the hub by asking for a wrong share a few times. It adds one after this.
    """
    settings = spawner.user.settings
    settings["failure_count"] = settings.get("failure_count", 0) - 1
