"""What people should hear once: how a resume went, what was lost. Kept for a while, for browsers that come later."""

from __future__ import annotations

import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.session.wire import MessageModel, NoticeModel

if TYPE_CHECKING:
    from jupyter_gpushare.rules.message import Message

__all__ = ["Notices"]

_MOST = 20


class Notices:
    """The newest notices. A loss stays for a day, everything else for *kept_s* seconds."""

    def __init__(self, kept_s: float = 60.0, losses_kept_s: float = 86400.0) -> None:
        self._kept_s = {"info": kept_s, "warning": kept_s, "loss": losses_kept_s}
        self._all: deque[NoticeModel] = deque(maxlen=_MOST)

    def add(self, kind: Literal["info", "warning", "loss"], message: Message) -> None:
        """Tell everybody who looks, now and for a while."""
        model = MessageModel.of(message)
        self._all.append(NoticeModel(secrets.token_hex(8), time.time(), kind, model))

    def models(self) -> list[NoticeModel]:
        """Those that are still news, oldest first."""
        now = time.time()
        return [notice for notice in self._all if now - notice.at <= self._kept_s[notice.kind]]
