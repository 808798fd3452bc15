"""`setup_gpushare`: the one call in ``jupyterhub_config.py``."""

from __future__ import annotations

import inspect
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from jupyter_gpushare.hub import applied_options, plain, registration
from jupyter_gpushare.hub.admission import SHARE, GpuShareAdmission, Terms
from jupyter_gpushare.hub.broker_link import BrokerLink
from jupyter_gpushare.hub.chaining import SetUpTwiceError, awaited, chain, configured, former_of, is_ours
from jupyter_gpushare.hub.denial import deny
from jupyter_gpushare.hub.installation import DEFAULT_CONFIG, SIMULATED, Installation, check_configuration
from jupyter_gpushare.hub.kubernetes import add_share_option, make_profiles, wrap_modify_pod
from jupyter_gpushare.hub.offers import NotOfferedError, Offers
from jupyter_gpushare.hub.outcomes import Outcome, count
from jupyter_gpushare.hub.service.environment import TEMPLATE_VARS
from jupyter_gpushare.hub.site_urls import SERVICE, SiteUrls
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from traitlets.config import Config

    from jupyter_gpushare.schedulers import Scheduler
    from jupyter_gpushare.share import Share

__all__ = ["setup_gpushare"]

_DEFAULT_SHARES: Final = ("0.25", "0.5", "1")
_DEFAULT_STATE: Final = "gpushare-state"
#: It stays the same over restarts: servers that run go on asking there.
_DEFAULT_PORT: Final = 10203
_FORM_HOOKS: Final = ("options_form", "options_from_form")
#: Linux takes 128 KiB in one variable.
_MOST_VARS: Final = 100_000
#: The arguments that are read with a scheduler too.
_OF_A_CLUSTER: Final = frozenset({"c", "shares", "default", "scheduler", "project", "priority"})
_POD_HOOKS: Final = ("modify_pod_hook",)
_HOOK_REPLACED: Final = (
    "The GPU share could not be set up: this hub has another {hook} in place of the one from setup_gpushare(c). "
    "Please tell your admin: setup_gpushare(c) has to come last in the hub's configuration."
)


def setup_gpushare(
    c: Config,
    *,
    config: str | os.PathLike[str] | None = DEFAULT_CONFIG,
    shares: Iterable[str | Share] = _DEFAULT_SHARES,
    default: str | Share | None = None,
    custom: str | Share | None = None,
    kinds: Iterable[str] = (),
    no_gpu: bool = True,
    scheduler: Scheduler | None = None,
    project: str | Callable[[Any], Any] = "",
    priority: str = "",
    queue_timeout: float = 600,
    broker_away: Literal["closed", "open"] = "closed",
    state: str | os.PathLike[str] = _DEFAULT_STATE,
    ledger: str = "",
    port: int = _DEFAULT_PORT,
    server_url: str = "",
    environment: Mapping[str, str] | None = None,
    unix_users: bool = False,
    admission: type[GpuShareAdmission] = GpuShareAdmission,
) -> None:
    """Offer GPU shares to everybody who starts a server. Call it last: what was set before is kept, and still runs.

    The hub then runs a service, ``gpushare``, which grants shares and shows people how things stand. With *scheduler*
    it does not: there the cluster's scheduler places the pods and keeps the books, and of the other arguments only
    *shares*, *default*, *project* and *priority* can be given.

    Args:
        c: the hub's configuration.
        config: the file that says which project may have how much (``gpushare.toml``). The usual one need not exist.
        shares: what users may choose from, as they write it: ``0.25``, ``0.25..0.8``, ``16GiB``, ``1``.
        default: the share of who chooses none, or ``none`` for no GPU; the first when left out.
        custom: the largest share that users may write themselves; they may not when left out.
        kinds: kinds of GPU on which each of *shares* may be asked for, beside any.
        no_gpu: whether a server may be started without a share.
        scheduler: the cluster's scheduler, with KubeSpawner; none for any other spawner.
        project: whose quota a share counts against, or a function of the spawner that gives it; the user's own project,
            and the user's choice among several, when empty.
        priority: with *scheduler*, the priority class of the pods; the scheduler's own choice when empty.
        queue_timeout: seconds that somebody may stand in line for a share.
        broker_away: what becomes of a start while the service does not answer: ``closed`` refuses it, ``open`` starts
            the server, which gets its share later.
        state: a directory of the hub's own, made if need be, which nobody else may enter.
        ledger: where the books are kept, such as ``postgresql+psycopg:///gpushare``; a file in *state* when empty.
        port: of this machine, on which the service listens for the hub, its proxy and servers.
        server_url: where servers reach the service that do not run on this machine, as in containers: the hub's own
            address with ``/services/gpushare/`` after it.
        environment: more environment for the service.
        unix_users: whether each hub user is this machine's user of that name, as with spawners for system users.
        admission: a subclass of `GpuShareAdmission`, for decisions of one's own.

    Raises:
        ValueError: an argument cannot be; names it, and says what to write instead.
        SetUpTwiceError: it was called before on this configuration.
    """
    given = locals()
    if is_ours(configured(c.Spawner, "pre_spawn_hook")):
        raise SetUpTwiceError
    _check_read(given)
    if scheduler is not None:
        _set_up_cluster(c, shares, default, scheduler, project, priority)
        return
    _check(queue_timeout=queue_timeout, broker_away=broker_away, port=port, server_url=server_url, admission=admission)
    offers = Offers.parse(shares, default, None, no_gpu=no_gpu, custom=custom, kinds=kinds)
    installation = Installation(state)
    urls = SiteUrls(port, _base_url(c), server_url, _service_host(c))
    terms = Terms(offers, project, BrokerLink(installation.secret), urls, queue_timeout, broker_away)
    _add_hooks(c, admission(terms))
    templates = configured(c.JupyterHub, "template_paths") or ()
    arguments = installation.arguments(check_configuration(config), ledger, templates, unix_users=unix_users)
    said = {**_simulated(c), **_template_vars(c), **(environment or {})}
    registration.add_service(c, port, arguments, installation.environment(said))
    registration.add_custom_scopes(c)
    registration.add_server_scopes(c)
    registration.add_roles(c, _hub_version())


def _add_hooks(c: Config, admission: GpuShareAdmission) -> None:
    chain(c, "options_form", partial(plain.wrap_form, admission))
    chain(c, "options_from_form", partial(plain.wrap_form_reader, admission))
    chain(c, "pre_spawn_hook", partial(_wrap_pre_spawn, admission.admit, _FORM_HOOKS))
    chain(c, "post_stop_hook", partial(_wrap_post_stop, admission))
    applied_options.add(c)


def _set_up_cluster(  # noqa: PLR0917  # private, one call
    c: Config,
    shares: Iterable[str | Share],
    default: str | Share | None,
    scheduler: Scheduler,
    project: str | Callable[[Any], Any],
    priority: str,
) -> None:
    own_profiles = configured(c.KubeSpawner, "profile_list")
    offers = Offers.parse(shares, default, scheduler, profiles_are_shares=not own_profiles)
    c.KubeSpawner.profile_list = (
        add_share_option(offers, own_profiles) if own_profiles else make_profiles(offers, scheduler)
    )
    wrap = partial(wrap_modify_pod, offers, scheduler, project, priority)
    chain(c, "modify_pod_hook", wrap, base="KubeSpawner")
    chain(c, "pre_spawn_hook", partial(_wrap_pre_spawn, partial(_tell_share, offers), _POD_HOOKS))


async def _tell_share(offers: Offers, spawner: Any) -> None:
    """Let a pod's server know its share, which its scheduler books."""
    try:
        share = offers.choose_some(spawner.user_options)
    except NotOfferedError as error:
        raise deny(error.message, spawner) from None
    # A new dict each time: a hook of the admin's may have given one and the same to every spawner.
    spawner.environment = {**spawner.environment, SHARE: str(share)}


def _wrap_pre_spawn(
    admit: Callable[[Any], Awaitable[None]], hooks: tuple[str, ...], former: Any
) -> Callable[[Any], Awaitable[None]]:
    async def pre_spawn(spawner: Any) -> None:
        if (before := former_of(former, spawner, "pre_spawn_hook")) is not None:
            await awaited(before(spawner))
        for hook in hooks:
            if not is_ours(getattr(spawner, hook, None)):
                count(Outcome.WRONG_SET_UP)
                raise deny(Message("HOOK_REPLACED", _HOOK_REPLACED, {"hook": hook}), spawner, by_admin=True)
        await admit(spawner)

    return pre_spawn


def _wrap_post_stop(admission: GpuShareAdmission, former: Any) -> Callable[[Any], Awaitable[None]]:
    async def post_stop(spawner: Any) -> None:
        await admission.release(spawner)
        if (before := former_of(former, spawner, "post_stop_hook")) is not None:
            await awaited(before(spawner))

    return post_stop


def _check_read(given: Mapping[str, Any]) -> None:
    """Refuse what would do nothing: most of what is *given* with a scheduler, the priority without one."""
    with_one = given["scheduler"] is not None
    for name, parameter in inspect.signature(setup_gpushare).parameters.items():
        is_read = name in _OF_A_CLUSTER if with_one else name != "priority"
        if not is_read and given[name] != parameter.default:
            why = "with a scheduler the cluster keeps the books" if with_one else "it is the pods', with a scheduler"
            raise ValueError(f"{name}: it would do nothing here, since {why}; leave it out")


def _check(
    *, queue_timeout: float, broker_away: str, port: int, server_url: str, admission: type[GpuShareAdmission]
) -> None:
    if not 0 < queue_timeout <= 86400:  # noqa: PLR2004  # a day
        raise ValueError(f"queue_timeout: {queue_timeout} is not between 1 and 86400 seconds; write for example 600")
    if broker_away not in ("closed", "open"):
        raise ValueError(f'broker_away: {broker_away!r} is neither; write "closed" or "open"')
    if not 0 < port < 1 << 16:
        raise ValueError(f"port: {port} is none; write for example {_DEFAULT_PORT}")
    if server_url and urlsplit(server_url).scheme not in ("http", "https"):
        raise ValueError(f"server_url: {server_url!r} is no address; write http://hub:8000/services/{SERVICE}/")
    if not (isinstance(admission, type) and issubclass(admission, GpuShareAdmission)):
        text = "admission: it is no subclass of GpuShareAdmission; write the class itself, not an object"
        raise ValueError(text)  # noqa: TRY004  # as every other wrong argument


def _simulated(c: Config) -> dict[str, str]:
    """The simulated devices that servers are told of: the service must look at the same ones."""
    said = configured(c.Spawner, "environment") or {}
    return {SIMULATED: said[SIMULATED]} if isinstance(said.get(SIMULATED), str) else {}


def _template_vars(c: Config) -> dict[str, str]:
    """What the hub's templates are given, such as an announcement, for the frame of our pages.

    Not what the hub works out for each page, nor more than an environment takes.
    """
    said: Mapping[str, Any] = configured(c.JupyterHub, "template_vars") or {}
    plain = {}
    for name, value in said.items():
        with suppress(TypeError, ValueError):
            plain[name] = json.loads(json.dumps(value))
    text = json.dumps(plain)
    return {TEMPLATE_VARS: text} if plain and len(text) <= _MOST_VARS else {}


def _base_url(c: Config) -> str:
    said = configured(c.JupyterHub, "base_url") or urlsplit(configured(c.JupyterHub, "bind_url") or "").path
    return f"/{said.strip('/')}/" if said.strip("/") else "/"


def _service_host(c: Config) -> str:
    """Where each user and service has a domain of its own: ours. Empty where all are on one."""
    said = configured(c.JupyterHub, "subdomain_host")
    if not said:
        return ""
    from jupyterhub.utils import subdomain_hook_idna, subdomain_hook_legacy  # type: ignore[import-untyped]

    named = {"idna": subdomain_hook_idna, "legacy": subdomain_hook_legacy}
    hook = configured(c.JupyterHub, "subdomain_hook") or "idna"
    parts = urlsplit(said if "://" in said else f"https://{said}")
    domain = (hook if callable(hook) else named[hook])(SERVICE, parts.hostname, kind="service")
    return f"{parts.scheme}://{domain}" + (f":{parts.port}" if parts.port else "")


def _hub_version() -> tuple[int, ...]:
    import jupyterhub  # type: ignore[import-untyped]

    return tuple(part for part in jupyterhub.version_info if isinstance(part, int))
