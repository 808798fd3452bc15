"""The shares that a hub offers, and which of them a user has chosen. Whatever a user sends is untrusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_gpushare.schedulers import Scheduler

__all__ = ["PROFILE_OPTION", "SHARE_OPTION", "NotOfferedError", "Offers"]

#: The key of a user's options, and the name of the form's field, that holds the chosen share.
SHARE_OPTION: Final = "share"
#: KubeSpawner's key for the chosen profile. It names a share where the profiles are ours.
PROFILE_OPTION: Final = "profile"


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
        default: one of *shares*.
        profiles_are_shares: whether KubeSpawner's profiles are the shares themselves.
    """

    shares: tuple[Share, ...]
    default: Share
    profiles_are_shares: bool = False

    @classmethod
    def parse(
        cls,
        shares: Iterable[str | Share],
        default: str | Share | None,
        scheduler: Scheduler | None,
        *,
        profiles_are_shares: bool = False,
    ) -> Offers:
        """Read an admin's configuration. Without *default*, the first share is it.

        Raises:
            ValueError: names the argument that is wrong and says what to write.
        """
        offered = tuple(_parse("shares", share) for share in shares)
        if not offered:
            raise ValueError('shares: nothing is offered; write for example ["0.25", "0.5", "1"]')
        if len(set(offered)) < len(offered):
            raise ValueError(f"shares: one is there twice in {_listed(offered)}; offer each once")
        chosen = offered[0] if default is None else _parse("default", default)
        if chosen not in offered:
            raise ValueError(f"default: {chosen} is not among the shares; choose one of {_listed(offered)}")
        for share in offered if scheduler else ():
            _check_expressible(share, scheduler)
        return cls(offered, chosen, profiles_are_shares)

    def choose(self, options: Mapping[str, Any] | None) -> Share:
        """The share that *options*, a user's own, ask for; the default when they say nothing about shares.

        Raises:
            NotOfferedError: they ask for a share that is not offered, or for two at once.
        """
        if options is None:
            return self.default
        keys = (SHARE_OPTION, PROFILE_OPTION) if self.profiles_are_shares else (SHARE_OPTION,)
        chosen = {self._find(options[key]) for key in keys if options.get(key) is not None}
        if len(chosen) > 1:
            raise NotOfferedError(self._refusal("TWO_SHARES", "Two different shares are asked for", ""))
        return chosen.pop() if chosen else self.default

    def _find(self, asked: object) -> Share:
        if not isinstance(asked, str):
            raise NotOfferedError(self._refusal("NO_SHARE_TEXT", 'A share is written as text, such as "0.5"', ""))
        refusal = self._refusal("SHARE_NOT_OFFERED", 'The share "{asked}" is not offered here', asked)
        try:
            share = Share.parse(asked)
        except ShareError:
            raise NotOfferedError(refusal) from None
        if share not in self.shares:
            raise NotOfferedError(refusal)
        return share

    def _refusal(self, code: str, problem: str, asked: str) -> Message:
        clipped = asked if len(asked) <= 40 else asked[:39] + "…"  # noqa: PLR2004  # enough for any share
        template = problem + ". Choose one of these: {offered}."
        return Message(code, template, {"asked": clipped, "offered": _listed(self.shares)})


def _parse(argument: str, share: str | Share) -> Share:
    if isinstance(share, Share):
        return share
    try:
        return Share.parse(share)
    except ShareError as error:
        raise ValueError(f"{argument}: {error}") from None


def _check_expressible(share: Share, scheduler: Scheduler | None) -> None:
    refusal = scheduler.can_express(share) if scheduler else None
    if refusal:
        raise ValueError(f"shares: {share} cannot be offered. {refusal.reason.text} Offer {refusal.nearest} instead.")


def _listed(shares: Iterable[Share]) -> str:
    return ", ".join(map(str, shares))
