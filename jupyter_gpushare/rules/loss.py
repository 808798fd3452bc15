"""Every way in which we may end a user's state. There is no other (DESIGN 2)."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Loss"]


class Loss(StrEnum):
    """An ending of user state by us: announced beforehand, audited and counted.

    A member says who asked for it. On by default is only what the owner asks for and confirms, what nobody can use any
    more, and, where an admin chose a mode with a guard, the end of an offender for its own overrun.
    """

    #: The owner ended one notebook's kernel to give its GPU back, and confirmed it.
    KERNEL_ENDED_BY_OWNER = "kernel_ended_by_owner"
    #: The owner ended every kernel of the session that holds a GPU, and confirmed it.
    ALL_KERNELS_ENDED_BY_OWNER = "all_kernels_ended_by_owner"
    #: A notebook server died while a kernel of its was parked. The kernel can never come back, and did not end itself:
    #: the next server ends it, so that its host memory is free again. Nobody could have used it any more.
    ORPHAN_OF_A_DEAD_SERVER = "orphan_of_a_dead_server"
    #: A session held more GPU memory than its share allows, was warned, and stayed there: its own program that grew
    #: most ends (isolation mode ``caps``). Nobody asks for this one; it is on where an admin chose that mode.
    OVERRUN_OF_ITS_OWN = "overrun_of_its_own"
    #: A job of ``jupyter gpushare run`` was called back or reclaimed, or its owner ended it, and it still ran when its
    #: grace was over. ``run`` announces at its start that this may happen; what the job had saved stays.
    JOB_STOPPED_AFTER_GRACE = "job_stopped_after_grace"
    #: A notebook's kernel held a GPU idle, or lay parked, for longer than the admin's file allows; it was warned of and
    #: not kept. Off until ``[culling]`` sets ``end_kernels_after`` or ``end_parked_after``.
    KERNEL_ENDED_WHILE_IDLE = "kernel_ended_while_idle"
    #: Nobody and nothing used a whole notebook server for longer than the admin's file allows, and it was not kept. Off
    #: until ``[culling]`` sets ``stop_after`` or ``stop_parked_after``, or a hub has a culler with our hook.
    SERVER_STOPPED_WHILE_IDLE = "server_stopped_while_idle"
    #: A notebook server was as old as the admin's file allows, used or not. Off until ``[culling]`` sets ``max_age``.
    SERVER_STOPPED_FOR_ITS_AGE = "server_stopped_for_its_age"
