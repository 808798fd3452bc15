"""`setup_gpushare`: the one call in ``jupyterhub_config.py``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.hub import plain
from jupyter_gpushare.hub.chaining import SetUpTwiceError, awaited, chain, configured, is_ours
from jupyter_gpushare.hub.denial import deny
from jupyter_gpushare.hub.kubernetes import add_share_option, make_profiles, wrap_modify_pod
from jupyter_gpushare.hub.offers import NotOfferedError, Offers
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from traitlets.config import Config

    from jupyter_gpushare.schedulers import Scheduler
    from jupyter_gpushare.share import Share

__all__ = ["setup_gpushare"]

_SHARE_ENV: Final = "GPUSHARE_SHARE"
_DEFAULT_SHARES: Final = ("0.25", "0.5", "1")
_HOOK_REPLACED: Final = (
    "The GPU share could not be set up: this hub has another {hook} in place of the one from setup_gpushare(c). "
    "Please tell your admin: setup_gpushare(c) has to come last in the hub's configuration."
)


def setup_gpushare(
    c: Config,
    *,
    shares: Iterable[str | Share] = _DEFAULT_SHARES,
    default: str | Share | None = None,
    scheduler: Scheduler | None = None,
    project: str | Callable[[Any], Any] = "",
    priority: str = "",
) -> None:
    """Offer GPU shares to everybody who starts a server. Call it last: hooks set before are kept and still run.

    Args:
        c: the hub's configuration.
        shares: what users may choose from, as they write it: ``0.25``, ``0.25..0.8``, ``16GiB``, ``1``.
        default: the share of who chooses none; the first when left out.
        scheduler: the cluster's scheduler, with KubeSpawner; none for any other spawner.
        project: the queue that a pod's share counts against, or a function of the spawner that gives it.
        priority: the priority class of the pods; the scheduler's own choice when empty.

    Raises:
        ValueError: a share cannot be read, or *scheduler* cannot book it; says what to write instead.
        SetUpTwiceError: it was called before on this configuration.
    """
    if is_ours(configured(c.Spawner, "pre_spawn_hook")):
        raise SetUpTwiceError
    own_profiles = configured(c.KubeSpawner, "profile_list") if scheduler else None
    offers = Offers.parse(shares, default, scheduler, profiles_are_shares=bool(scheduler and not own_profiles))
    if scheduler is None:
        chain(c, "options_form", partial(plain.wrap_form, offers))
        chain(c, "options_from_form", partial(plain.wrap_form_reader, offers))
    else:
        profiles = add_share_option(offers, own_profiles) if own_profiles else make_profiles(offers, scheduler)
        c.KubeSpawner.profile_list = profiles
        wrap = partial(wrap_modify_pod, offers, scheduler, project, priority)
        chain(c, "modify_pod_hook", wrap, base="KubeSpawner")
    chain(c, "pre_spawn_hook", partial(_wrap_pre_spawn, offers, scheduler is not None))


def _wrap_pre_spawn(offers: Offers, on_cluster: bool, former: Any) -> Callable[[Any], Awaitable[None]]:  # noqa: FBT001  # private
    async def pre_spawn(spawner: Any) -> None:
        if former is not None:
            await awaited(former(spawner))
        try:
            share = offers.choose(spawner.user_options)
        except NotOfferedError as error:
            raise deny(error.message, spawner) from None
        for hook in ("modify_pod_hook",) if on_cluster else ("options_form", "options_from_form"):
            if not is_ours(getattr(spawner, hook, None)):
                raise deny(Message("HOOK_REPLACED", _HOOK_REPLACED, {"hook": hook}), spawner, by_admin=True)
        # A new dict each time: a hook of the admin's may have given one and the same to every spawner.
        spawner.environment = {**spawner.environment, _SHARE_ENV: str(share)}

    return pre_spawn
