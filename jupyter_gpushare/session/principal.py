"""Who speaks: the server's user, checked by the server's authorizer, or one kernel with its own token.

Every route says which action it needs and whether a kernel may call it. There is no other way in.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import allow_unauthenticated
from tornado import web

from jupyter_gpushare.session.errors import forbidden
from jupyter_gpushare.session.tokens import TOKEN_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Verb = Callable[..., Coroutine[Any, Any, None]]

__all__ = ["RESOURCE", "KernelTokenMixin", "authorize", "permitted"]

#: What the server's authorizer is asked about.
RESOURCE = "gpushare"

Action = Literal["read", "write", "execute"]


def permitted(action: Action, *, kernels: Literal["no", "own", "only"] = "no") -> Callable[[Verb], Verb]:
    """Guard one verb of one handler.

    Args:
        action: what the authorizer is asked for, on the resource `RESOURCE`.
        kernels: whether a kernel's token opens it. With ``own`` and ``only`` the handler finds the kernel in
            ``self.speaking_kernel`` and must keep to it; ``only`` shuts users out.
    """

    def guard(verb: Verb) -> Verb:
        @wraps(verb)
        async def guarded(self: Any, *args: Any, **kwargs: Any) -> None:
            self.speaking_kernel = await authorize(self, action, kernels=kernels)
            await verb(self, *args, **kwargs)

        # Where kernels may speak, Jupyter's own check for a user would come too early; ours follows at once.
        checked: Verb = web.authenticated(guarded) if kernels == "no" else allow_unauthenticated(guarded)  # type: ignore[assignment]  # tornado types it wider
        return checked

    return guard


async def authorize(handler: Any, action: Action, *, kernels: Literal["no", "own", "only"]) -> str | None:
    """The kernel that speaks, None when it is the user.

    Raises:
        PublicError: 403: nobody who may do this.
    """
    token = handler.request.headers.get(TOKEN_HEADER)
    if token is not None:
        kernel_id: str | None = handler.gpushare.tokens.kernel_of(token)
        if kernel_id is None or kernels == "no":
            raise forbidden()
        return kernel_id
    user = handler.current_user
    if user is None or kernels == "only":
        raise forbidden()
    if not await ensure_async(handler.authorizer.is_authorized(handler, user, action, RESOURCE)):
        raise forbidden()
    return None


class KernelTokenMixin:
    """Lets a request with a living kernel token pass the cookie check, which is for browsers."""

    def check_xsrf_cookie(self) -> None:
        """Skip the check for a kernel: a browser cannot be made to send its token from another site."""
        token = self.request.headers.get(TOKEN_HEADER)  # type: ignore[attr-defined]
        if token is None or self.gpushare.tokens.kernel_of(token) is None:  # type: ignore[attr-defined]
            super().check_xsrf_cookie()  # type: ignore[misc]
