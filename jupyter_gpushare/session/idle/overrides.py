"""When a kernel is parked by itself, and who decided it: configuration, kernel spec, notebook, or its owner.

The later in that order, the stronger. Kernel spec and notebook say it in their metadata, under ``gpushare``::

    {"gpushare": {"idle_timeout": "30m", "allow_background_work": false, "park": true}}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from jupyter_gpushare.session.idle.wish import Wish, read_wish
from jupyter_gpushare.session.lease.pool import timeout_under
from jupyter_gpushare.session.wire import PolicyModel

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.idle.notebook_metadata import NotebookMetadata
    from jupyter_gpushare.session.idle.wish import Place
    from jupyter_gpushare.session.requests import PolicyRequest

__all__ = ["Defaults", "Overrides", "kernel_spec_metadata"]

_PLACES: tuple[Place, ...] = ("kernel_spec", "notebook", "owner")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the server's configuration says; a timeout of None means never. *is_said*: somebody chose that timeout."""

    idle_timeout_s: float | None = 600.0
    allow_background_work: bool = False
    allow_foreign: bool = False
    is_said: bool = False


class Overrides:
    """The policy of each kernel.

    Args:
        defaults: what holds where nobody says otherwise.
        kernel_spec: gives the metadata of a kernel's spec; may raise anything.
        notebooks: reads the metadata of notebooks.
        log: hears once of each wrong value.
        pool: gives the policy of the pool of this server's share, a default and a bound; None for none.
    """

    def __init__(
        self,
        defaults: Defaults,
        *,
        kernel_spec: Callable[[str], object],
        notebooks: NotebookMetadata,
        log: logging.Logger,
        pool: Callable[[], PoolPolicy | None] = lambda: None,
    ) -> None:
        self._defaults = defaults
        self._kernel_spec = kernel_spec
        self._notebooks = notebooks
        self._log = log
        self._pool = pool
        self._specs_read: set[str] = set()
        self._wishes: dict[str, dict[Place, Wish]] = {}
        self._problems: dict[str, dict[Place, Message]] = {}

    def of(self, kernel_id: str) -> PolicyModel:
        """What holds for that kernel now."""
        wishes = self._wishes.get(kernel_id, {})
        pool = self._pool()
        policy = default = self._default(pool)
        for place in _PLACES:
            if (wish := wishes.get(place)) is not None:
                policy = self._apply(policy, place, wish, default)
        return _bounded(policy, pool)

    def problem(self, kernel_id: str) -> Message | None:
        """What in the kernel spec's or the notebook's metadata is wrong and therefore ignored; None when all is well.

        The strongest place first, as people can mend their notebook.
        """
        problems = self._problems.get(kernel_id, {})
        return next((problems[place] for place in reversed(_PLACES) if place in problems), None)

    async def refresh(self, kernel_id: str, path: str | None) -> None:
        """Learn what the kernel's spec and the notebook at *path* say. Cheap to call often; raises nothing."""
        if kernel_id not in self._specs_read:
            self._specs_read.add(kernel_id)
            self._read_kernel_spec(kernel_id)
        metadata = await self._notebooks.read(path)
        if kernel_id in self._specs_read:  # it may have ended meanwhile
            self._read(kernel_id, "notebook", metadata)

    def set_owner(self, kernel_id: str, request: PolicyRequest) -> PolicyModel:
        """Take the owner's word for as long as the kernel lives; what holds then."""
        wishes = self._wishes.setdefault(kernel_id, {})
        before = Wish() if request.reset else wishes.get("owner", Wish())
        wishes["owner"] = before.amended(
            Wish(request.idle_timeout_s, request.allow_background_work, request.allow_foreign)
        )
        return self.of(kernel_id)

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._wishes.pop(kernel_id, None)
        self._problems.pop(kernel_id, None)
        self._specs_read.discard(kernel_id)

    def _read_kernel_spec(self, kernel_id: str) -> None:
        try:
            self._read(kernel_id, "kernel_spec", self._kernel_spec(kernel_id))
        except Exception:  # noqa: BLE001  # whatever a kernel spec manager raises
            self._log.debug("The kernel spec of %s could not be read", kernel_id, exc_info=True)

    def _default(self, pool: PoolPolicy | None) -> PolicyModel:
        """What holds where kernel spec, notebook and owner say nothing."""
        defaults = self._defaults
        policy = PolicyModel(
            defaults.idle_timeout_s, "configuration", defaults.allow_background_work, defaults.allow_foreign
        )
        if pool is None or pool.idle_timeout_s is None or defaults.is_said:
            return policy
        return msgspec.structs.replace(policy, idle_timeout_s=pool.idle_timeout_s, source="pool", pool=pool.pool)

    def _apply(self, policy: PolicyModel, place: Place, wish: Wish, default: PolicyModel) -> PolicyModel:
        changes: dict[str, object] = {
            name: value
            for name in ("allow_background_work", "allow_foreign")
            if (value := getattr(wish, name)) is not UNSET
        }
        timeout = default.idle_timeout_s if wish.park_again else wish.idle_timeout_s
        if timeout is not UNSET:
            changes |= {"idle_timeout_s": timeout, "source": place, "pool": ""}
        return msgspec.structs.replace(policy, **changes)

    def _read(self, kernel_id: str, place: Place, metadata: object) -> None:
        wish, problem = read_wish(metadata, place)
        self._wishes.setdefault(kernel_id, {})[place] = wish
        known = self._problems.setdefault(kernel_id, {})
        if problem is None:
            known.pop(place, None)
        elif known.get(place) != problem:
            known[place] = problem
            self._log.warning("Kernel %s: %s", kernel_id, problem.text)


def _bounded(policy: PolicyModel, pool: PoolPolicy | None) -> PolicyModel:
    """*policy*, not beyond what the pool allows."""
    timeout_s = timeout_under(pool, policy.idle_timeout_s)
    if pool is None or timeout_s == policy.idle_timeout_s:
        return policy
    return msgspec.structs.replace(policy, idle_timeout_s=timeout_s, source="pool", pool=pool.pool)


def kernel_spec_metadata(manager: Any, kernel_id: str) -> object:
    """What the spec of a kernel of *manager*, a `MappingKernelManager`, says beside how to start it."""
    return manager.get_kernel(kernel_id).kernel_spec.metadata
