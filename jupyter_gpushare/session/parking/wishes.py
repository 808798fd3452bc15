"""What owners, and their kernels for them, may want of parking beside a release: resume, keep, policy, wake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.session.errors import unknown_kernel
from jupyter_gpushare.session.parking.sentences import kept, kept_no_longer
from jupyter_gpushare.session.requests import KeepAnswer
from jupyter_gpushare.session.snapshot import message_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.session.gate.gates import Gates
    from jupyter_gpushare.session.idle.keep import Keep
    from jupyter_gpushare.session.idle.overrides import Overrides
    from jupyter_gpushare.session.idle.watch import IdleWatch
    from jupyter_gpushare.session.kernels import Kernels
    from jupyter_gpushare.session.parking.parkings import Parkings
    from jupyter_gpushare.session.parking.previews import Previews
    from jupyter_gpushare.session.requests import PolicyRequest
    from jupyter_gpushare.session.wire import PolicyModel

__all__ = ["Wishes"]


class Wishes:
    """Takes the owner's word.

    Args:
        kernels: the server's kernels.
        parkings: park and resume them.
        gates: hold their messages.
        keeps: timed locks.
        overrides: the policy of each kernel.
        previews: what is known of whether they can be parked, which a new policy may change.
        watch: the idle policy at work.
        changed: called when people should see something new.
    """

    def __init__(
        self,
        *,
        kernels: Kernels,
        parkings: Parkings,
        gates: Gates,
        keeps: Keep,
        overrides: Overrides,
        previews: Previews,
        watch: IdleWatch,
        changed: Callable[[], None],
    ) -> None:
        self._kernels = kernels
        self._parkings = parkings
        self._gates = gates
        self._keeps = keeps
        self._overrides = overrides
        self._previews = previews
        self._watch = watch
        self._changed = changed

    def resume(self, kernel_id: str | None) -> list[str]:
        """Bring one kernel back, or all; those that are on their way now.

        Raises:
            PublicError: 404: there is no such kernel.
        """
        if kernel_id is None:
            return [parking.kernel_id for parking in self._parkings.all() if self._parkings.resume(parking.kernel_id)]
        self._check(kernel_id)
        return [kernel_id] if self._parkings.resume(kernel_id) else []

    def keep(self, seconds: float, kernel_id: str | None) -> KeepAnswer:
        """Keep one kernel, or all, from being parked by itself.

        Raises:
            PublicError: 404: there is no such kernel.
        """
        if kernel_id is not None:
            self._check(kernel_id)
        until = self._keeps.keep(seconds, kernel_id)
        self._changed()
        return KeepAnswer(until, message_model(kept_no_longer() if until is None else kept(until)))

    def set_policy(self, kernel_id: str, request: PolicyRequest) -> PolicyModel:
        """Take the owner's word for one kernel.

        Raises:
            PublicError: 404: there is no such kernel.
        """
        self._check(kernel_id)
        policy = self._overrides.set_owner(kernel_id, request)
        self._previews.forget(kernel_id)
        self._watch.reconsider(kernel_id)
        self._changed()
        return policy

    def wake_from_inside(self, kernel_id: str) -> None:
        """The part of ours in the kernel holds a message of a client that does not go through the server."""
        self._check(kernel_id)
        self._parkings.wake(kernel_id, from_inside=True)
        if self._gates.can_gate(kernel_id):
            self._gates.of(kernel_id).disturb()

    def _check(self, kernel_id: str) -> None:
        if self._kernels.get(kernel_id) is None:
            raise unknown_kernel(kernel_id)
