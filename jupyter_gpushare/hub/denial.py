"""Refusing to start a server, in a way that JupyterHub 5 and 6 show to the user and do not count as trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tornado.web import HTTPError

if TYPE_CHECKING:
    from jupyter_gpushare.rules.message import Message

__all__ = ["deny"]

_UNPROCESSABLE: Final = 422
_MISCONFIGURED: Final = 500


def deny(message: Message, spawner: Any = None, *, by_admin: bool = False) -> HTTPError:
    """Give the exception to raise so that no server starts and the user reads *message*.

    Args:
        message: what is wrong and what to do.
        spawner: the spawner whose start is refused, when it has begun to start.
        by_admin: whether an admin, not the user, has to change something.
    """
    status = _MISCONFIGURED if by_admin else _UNPROCESSABLE
    error = _make_error(message, status, spawner)
    # Both hubs show this to the user in place of the exception's own text.
    error.jupyterhub_message = message.text  # type: ignore[attr-defined]
    return error


def _make_error(message: Message, status: int, spawner: Any) -> HTTPError:
    try:
        from jupyterhub.spawner import SpawnException  # type: ignore[import-untyped]
    except ImportError:  # JupyterHub 5
        if spawner is not None:
            _leave_uncounted(spawner)
        return HTTPError(status, message.text, reason=message.code)
    error: HTTPError = SpawnException(message.text, reason=message.code, status_code=status)
    return error


def _leave_uncounted(spawner: Any) -> None:
    """Keep a refusal from counting as a failed start.

    JupyterHub 5 counts every exception towards ``consecutive_failure_limit`` and then ends itself, so that any
    user could stop the hub by asking for a wrong share a few times. It adds one after this.
    """
    settings = spawner.user.settings
    settings["failure_count"] = settings.get("failure_count", 0) - 1
