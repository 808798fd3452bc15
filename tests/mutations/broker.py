"""Lies in the broker: about what is kept, who has left, and whose processes are whose."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

DATABASES = "tests/broker/hostile/test_databases.py"
HOLDERS = "tests/broker/hostile/test_holders.py"

MUTATIONS = [
    Mutation(
        name="what could not be kept is forgotten",
        file="broker/reconciler.py",
        original="            self._batch = _Batch(batch.change.then(self._batch.change), batch.waiting + self._batch.waiting)\n",
        mutated="            self._batch = _Batch(self._batch.change, batch.waiting + self._batch.waiting)\n",
        tests=(f"{DATABASES}::test_a_full_disk_delays_and_loses_nothing",),
    ),
    Mutation(
        name="a holder's word frees what the device shows to be used",
        file="broker/attestation.py",
        original="        if lease.id in seen.held:\n",
        mutated="        if lease.id in ():\n",
        tests=(f"{HOLDERS}::test_who_says_that_it_uses_nothing_gains_nothing",),
    ),
    Mutation(
        name="who joins while the roster is written is in no file",
        file="broker/roster.py",
        original="        self._written = roots\n",
        mutated="        self._written = self.roots()\n",
        tests=(f"{HOLDERS}::test_what_joins_a_roster_while_it_is_written_is_written_next",),
    ),
    Mutation(
        name="a notebook that vanished in its park is lost",
        file="rules/reports.py",
        original="    if lease.was is not Status.PARKING or",
        mutated="    if lease.was is not None or",
        tests=("tests/rules/test_missing.py::test_a_notebook_that_vanished_while_it_parked_is_parked_and_not_lost",),
    ),
    Mutation(
        name="another file in the ledger's place is written to",
        file="broker/sql/ledger.py",
        original="            if self._file is not None:\n",
        mutated="            if self._file is None:\n",
        tests=(f"{DATABASES}::test_books_that_another_program_replaced_are_not_written_to",),
    ),
]
