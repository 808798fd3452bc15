"""A token for each kernel, which works for that kernel only.

It says which kernel speaks; it does not protect the user from code that the same user runs, because that
code can read the server's own token from its runtime file.
"""

from __future__ import annotations

import secrets

__all__ = ["TOKEN_HEADER", "KernelTokens"]

#: Not ``Authorization``: a hub's identity provider would take that token to the hub.
TOKEN_HEADER = "X-Gpushare-Kernel-Token"  # noqa: S105  # the header's name


class KernelTokens:
    """The living tokens of one server, in memory only."""

    def __init__(self) -> None:
        self._kernels: dict[str, str] = {}

    def issue(self, kernel_id: str) -> str:
        """A new token for *kernel_id*. The one it had expires: a restarted kernel is a new process."""
        self.revoke(kernel_id)
        token = secrets.token_urlsafe(32)
        self._kernels[token] = kernel_id
        return token

    def revoke(self, kernel_id: str) -> None:
        """Make the kernel's token, if it has one, stop working."""
        self._kernels = {token: owner for token, owner in self._kernels.items() if owner != kernel_id}

    def kernel_of(self, token: str) -> str | None:
        """The kernel that *token* speaks for, None for a stranger's."""
        return self._kernels.get(token)
