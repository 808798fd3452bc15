"""Lies in the books of the broker: about who holds what, who may act, and what there is room for."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

BOOKS = "rules/snapshot.py"
LENDING = "rules/lending.py"
REPORTS = "rules/reports.py"
HOST_MEMORY = "rules/host_memory.py"
COPIES = "rules/copies.py"
HISTORIES = "tests/rules/test_histories.py::test_nothing_is_lost_or_overfilled_whatever_happens"
LENDS = "tests/rules/test_lending.py"
LIVES = "tests/rules/test_lifecycle.py"
RESUMES = "tests/rules/test_resuming.py"
MISSES = "tests/rules/test_missing.py"

MUTATIONS = [
    Mutation(
        name="who is told to wait for its device is taken to have one",
        file="rules/claims.py",
        original="        if not lease.grants or not is_told:\n",
        mutated="        if not is_told:\n",
        tests=("tests/rules/test_parked_jobs.py::test_one_that_lost_its_device_is_no_parked_job_whatever_its_reason",),
    ),
    Mutation(
        name="only leases that run count on a device",
        file=BOOKS,
        original="        held += amount if is_resident else 0\n",
        mutated="        held += amount if lease.status == 'running' else 0\n",
        tests=(HISTORIES,),
    ),
    Mutation(
        name="a loan is forgotten: what is lent is lent again",
        file=LENDING,
        original="                left[loan.lender] -= loan.amount.millionths\n",
        mutated="                left[loan.lender] -= 0\n",
        tests=(f"{LENDS}::test_only_sessions_that_stay_parked_lend_and_only_what_is_left",),
    ),
    Mutation(
        name="a loan is forgotten: nobody is called back for who resumes",
        file=LENDING,
        original="        if lease.loans and lease.is_resident and any(loan.lender == lender.id for loan in lease.loans):\n",
        mutated="        if lease.loans and lease.is_over and any(loan.lender == lender.id for loan in lease.loans):\n",
        tests=(HISTORIES,),
    ),
    Mutation(
        name="a loan is forgotten in the books of its device",
        file=BOOKS,
        original="        lent = sum([loan.amount.millionths for loan in loans if loan.device == device and loan.lender in lenders])\n",
        mutated="        lent = 0\n",
        tests=(LENDS, "tests/rules/test_share_changes.py"),
    ),
    Mutation(
        name="fencing is skipped: an old word frees a device",
        file=REPORTS,
        original='    if event.epoch != lease.epoch:\n        return fenced(lease, event.epoch, now, "released")\n',
        mutated='    if event.epoch > lease.epoch:\n        return fenced(lease, event.epoch, now, "released")\n',
        tests=(f"{LIVES}::test_words_with_another_epoch_change_nothing_but_the_audit",),
    ),
    Mutation(
        name="fencing is skipped: an old word starts a lease",
        file=REPORTS,
        original='    if event.epoch != lease.epoch:\n        return fenced(lease, event.epoch, now, "running")\n',
        mutated='    if event.epoch > lease.epoch:\n        return fenced(lease, event.epoch, now, "running")\n',
        tests=(f"{LIVES}::test_words_with_another_epoch_change_nothing_but_the_audit",),
    ),
    Mutation(
        name="host memory is not looked at",
        file=HOST_MEMORY,
        original="    return budget.is_unlimited or taken + memory.bytes <= budget.bytes\n",
        mutated="    return budget.is_unlimited or taken >= 0\n",
        tests=(HISTORIES,),
    ),
    Mutation(
        name="jobs take the host memory that sessions need",
        file=HOST_MEMORY,
        original="    taken = books.booked.bytes + books.foreseen.bytes + books.bursting.bytes\n",
        mutated="    taken = books.booked.bytes\n",
        tests=("tests/rules/test_host_memory.py",),
    ),
    Mutation(
        name="a missing holder's share is given away",
        file="rules/lease.py",
        original="            return self.was in RESIDENT\n",
        mutated="            return self.was is None\n",
        tests=(MISSES,),
    ),
    Mutation(
        name="a parked notebook is lost when it is silent",
        file=REPORTS,
        original="    if not lease.is_resident:\n        return Change()\n    is_lost =",
        mutated="    is_lost =",
        tests=(f"{MISSES}::test_a_parked_notebook_is_never_lost_for_its_silence",),
    ),
    Mutation(
        name="two restore on a device at once",
        file=COPIES,
        original="        return self._restoring.isdisjoint(devices)\n",
        mutated="        return bool(self._restoring) or not self._restoring\n",
        tests=(RESUMES,),
    ),
    Mutation(
        name="copies are not counted",
        file=COPIES,
        original="        if known is not None and self._copies[host] >= known.copies:\n",
        mutated="        if known is not None and self._copies[host] < 0:\n",
        tests=(RESUMES,),
    ),
    Mutation(
        name="a park that failed keeps its epoch: the word heard late undoes the next one",
        file=REPORTS,
        original="            Status.RUNNING, now, epoch=lease.epoch + 1, deadline=None, wanted_since=None, not_before=later\n",
        mutated="            Status.RUNNING, now, deadline=None, wanted_since=None, not_before=later\n",
        tests=(f"{LIVES}::test_the_word_that_a_park_failed_undoes_that_park_alone",),
    ),
    Mutation(
        name="turns in a class are not respected",
        file="rules/turns.py",
        original="    return turn_ends(snapshot, lease) <= now\n",
        mutated="    return turn_ends(snapshot, lease) >= 0\n",
        tests=("tests/rules/test_best_effort.py::test_a_turn_is_respected_and_its_end_is_waited_for",),
    ),
    Mutation(
        name="promises of parked sessions are given to bursts",
        file="rules/room.py",
        original="    return capacity - books.held.millionths - books.parked.millionths + books.lent.millionths\n",
        mutated="    return capacity - books.held.millionths + books.lent.millionths\n",
        tests=("tests/rules/test_bursts.py", "tests/rules/test_share_changes.py"),
    ),
]
