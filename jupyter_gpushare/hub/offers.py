"""The shares that a hub offers, and which of them a user has chosen. Whatever a user sends is untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.hub.custom_share import is_within
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.schedulers import Scheduler

__all__ = ["MOST_SHARES", "NO_GPU", "PROFILE_OPTION", "PROJECT_OPTION", "SHARE_OPTION", "NotOfferedError", "Offers"]

#: The key of a user's options, and the name of the form's field, that holds the chosen share.
SHARE_OPTION: Final = "share"
#: The same for the project that it counts for, where somebody is in several.
PROJECT_OPTION: Final = "share_project"
#: KubeSpawner's key for the chosen profile. It names a share where the profiles are ours.
PROFILE_OPTION: Final = "profile"
#: What is written in a share's place by who wants none.
NO_GPU: Final = "none"
#: As many as a picker's page asks about.
MOST_SHARES: Final = 64
_LONGEST_PROJECT: Final = 200


class NotOfferedError(ValueError):
    """A user asked for something that the hub does not offer."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.text)
        self.message = message


@dataclass(frozen=True, slots=True)
class Offers:
    """The shares that users may choose from, in the order shown, and the one they get without choosing.

    Attributes:
        shares: all of them, none twice.
        default: one of *shares*; None for no GPU.
        profiles_are_shares: whether KubeSpawner's profiles are the shares themselves.
        no_gpu: whether a server may be started without a share.
        custom: the largest share that people may write themselves; None where they may not.
        kinds: the kinds of GPU on which each share may be asked for, beside any.
    """

    shares: tuple[Share, ...]
    default: Share | None
    profiles_are_shares: bool = False
    no_gpu: bool = False
    custom: Share | None = None
    kinds: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        shares: Iterable[str | Share],
        default: str | Share | None,
        scheduler: Scheduler | None,
        *,
        profiles_are_shares: bool = False,
        no_gpu: bool = False,
        custom: str | Share | None = None,
        kinds: Iterable[str] = (),
    ) -> Offers:
        """Read an admin's configuration. Without *default*, the first share is it.

        Raises:
            ValueError: names the argument that is wrong and says what to write.
        """
        offered = tuple(_parse("shares", share) for share in shares)
        if not offered:
            raise ValueError('shares: nothing is offered; write for example ["0.25", "0.5", "1"]')
        if len(offered) > MOST_SHARES:
            raise ValueError(f"shares: {len(offered)} are more than anybody reads; offer at most {MOST_SHARES}")
        if len(set(offered)) < len(offered):
            raise ValueError(f"shares: one is there twice in {_listed(offered)}; offer each once")
        for share in offered if scheduler else ():
            _check_expressible(share, scheduler)
        return cls(
            offered,
            _parse_default(default, offered, no_gpu=no_gpu),
            profiles_are_shares,
            no_gpu,
            None if custom is None else _parse("custom", custom),
            tuple(_parse_kind(kind) for kind in kinds),
        )

    def choose(self, options: object) -> Share | None:
        """The share that *options*, a user's own, ask for, None for no GPU; the default when they say nothing.

        Raises:
            NotOfferedError: they ask for a share that is not offered, or for two at once.
        """
        if options is None:
            return self.default
        if not isinstance(options, Mapping):
            raise NotOfferedError(self._refusal("NO_OPTIONS", "A server's options are names with values", ""))
        keys = (SHARE_OPTION, PROFILE_OPTION) if self.profiles_are_shares else (SHARE_OPTION,)
        chosen = {self._find(options[key]) for key in keys if options.get(key) is not None}
        if len(chosen) > 1:
            raise NotOfferedError(self._refusal("TWO_SHARES", "Two different shares are asked for", ""))
        return chosen.pop() if chosen else self.default

    def choose_some(self, options: object) -> Share:
        """As `choose`, of offers without *no_gpu*.

        Raises:
            NotOfferedError: as there.
        """
        share = self.choose(options)
        assert share is not None  # noqa: S101  # narrows the type: nobody can choose none here
        return share

    @property
    def all_kinds(self) -> frozenset[str]:
        """Every kind of GPU that may be asked for."""
        return frozenset(self.kinds) | {share.kind for share in self.shares if share.kind}

    def project_in(self, options: object) -> str:
        """The project that *options*, a user's own, name; empty where they name none.

        Raises:
            NotOfferedError: it is no name.
        """
        asked = options.get(PROJECT_OPTION) if isinstance(options, Mapping) else None
        if asked is None or asked == "":
            return ""
        if not isinstance(asked, str) or len(asked) > _LONGEST_PROJECT or not asked.isprintable():
            template = "A project is named by text of at most {longest} characters; choose one on the spawn page."
            raise NotOfferedError(Message("NO_PROJECT_TEXT", template, {"longest": str(_LONGEST_PROJECT)}))
        return asked

    def _find(self, asked: Any) -> Share | None:
        if not isinstance(asked, str):
            raise NotOfferedError(self._refusal("NO_SHARE_TEXT", 'A share is written as text, such as "0.5"', ""))
        if self.no_gpu and asked.strip() == NO_GPU:
            return None
        try:
            share = Share.parse(asked)
        except ShareError as error:
            raise NotOfferedError(self._unreadable(asked, error)) from None
        if not self._may_have(share):
            raise NotOfferedError(self._refusal("SHARE_NOT_OFFERED", 'The share "{asked}" is not offered here', asked))
        return share

    def _may_have(self, share: Share) -> bool:
        if share in self.shares:
            return True
        if share.kind in self.kinds and replace(share, kind="") in self.shares:
            return True
        return self.custom is not None and is_within(share, self.custom, {"", *self.all_kinds})

    def _unreadable(self, asked: str, error: ShareError) -> Message:
        if self.custom is None:
            return self._refusal("SHARE_NOT_OFFERED", 'The share "{asked}" is not offered here', asked)
        return self._refusal("SHARE_NOT_UNDERSTOOD", 'The share "{asked}" cannot be read ({why})', asked, str(error))

    def _refusal(self, code: str, problem: str, asked: str, why: str = "") -> Message:
        clipped = asked if len(asked) <= 40 else asked[:39] + "…"  # noqa: PLR2004  # enough for any share
        own = "" if self.custom is None else ", or write one of your own up to {most}"
        values = {"asked": clipped, "offered": _listed(self.shares), "most": str(self.custom), "why": why[:200]}
        template = f"{problem}. Choose one of these: {{offered}}{own}."
        return Message(code, template, values)


def _parse(argument: str, share: str | Share) -> Share:
    if isinstance(share, Share):
        return share
    try:
        return Share.parse(share)
    except ShareError as error:
        raise ValueError(f"{argument}: {error}") from None


def _parse_default(default: str | Share | None, offered: tuple[Share, ...], *, no_gpu: bool) -> Share | None:
    if default is None:
        return offered[0]
    if default == NO_GPU and no_gpu:
        return None
    chosen = _parse("default", default)
    if chosen not in offered:
        raise ValueError(f"default: {chosen} is not among the shares; choose one of {_listed(offered)}")
    return chosen


def _parse_kind(kind: str) -> str:
    try:
        return Share.parse(f"1@{kind}").kind
    except ShareError as error:
        raise ValueError(f"kinds: {error}") from None


def _check_expressible(share: Share, scheduler: Scheduler | None) -> None:
    refusal = scheduler.can_express(share) if scheduler else None
    if refusal:
        raise ValueError(f"shares: {share} cannot be offered. {refusal.reason.text} Offer {refusal.nearest} instead.")


def _listed(shares: Iterable[Share]) -> str:
    return ", ".join(map(str, shares))
