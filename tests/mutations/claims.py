"""Lies about a hub's claims: that nobody yields for nothing, who speaks for whom, and whose names are told."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

CLAIMS = "tests/broker/service/test_held_claims.py"
ACCESS = "tests/broker/service/test_hub_access.py"

MUTATIONS = [
    Mutation(
        name="others yield for a start that is refused",
        file="broker/held_claims.py",
        original="            if not request.wait or any(isinstance(event, LetGo) for event in events):\n"
        "                self._check_room(wish, events, may_wait=request.wait)\n",
        mutated="",
        tests=(f"{CLAIMS}::test_without_room_and_without_waiting_nothing_is_left_and_nobody_yields",),
    ),
    Mutation(
        name="a restart forgets what was reserved",
        file="broker/holders.py",
        original="                self._away[key] = _Away(max(until, lease.hold.until), is_held=True)\n",
        mutated="                self._away[key] = _Away(until)\n",
        tests=("tests/broker/service/test_held_claims_lasting.py::test_a_restart_shortens_nobodys_reservation",),
    ),
    Mutation(
        name="what was reserved and joined is given to others",
        file="broker/conversation.py",
        original="        if lease.hold is not None:\n",
        mutated="        if lease.hold is None:\n",
        tests=(f"{CLAIMS}::test_a_granted_claim_is_joined_by_its_server",),
    ),
    Mutation(
        name="everybody claims for everybody",
        file="broker/held_claims.py",
        original='    if not _is_trusted(caller):\n        raise forbidden("ANOTHER_PERSON"',
        mutated='    if caller.lease:\n        raise forbidden("ANOTHER_PERSON"',
        tests=(f"{ACCESS}::test_a_person_claims_for_nobody_else",),
    ),
    Mutation(
        name="team mates are told whose notebook it is",
        file="broker/access.py",
        original="    return is_known or _knows(caller, lease) or owns(caller, project)\n",
        mutated="    return is_known or _knows(caller, lease) or project is not None\n",
        tests=(f"{ACCESS}::test_names_are_told_to_owners_of_the_project_and_to_nobody_else_of_the_hub",),
    ),
    Mutation(
        name="who is called like a group is in it",
        file="rules/project.py",
        original="        return person in self.members and not person.startswith(GROUP)\n",
        mutated="        return person in self.members\n",
        tests=(f"{ACCESS}::test_a_person_called_like_a_group_is_no_member",),
    ),
    Mutation(
        name="young lines of the audit can be deleted",
        file="broker/sql/migrations/versions/r0003_hub.py",
        original="CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit WHEN OLD.at >= {_UNTIL}\n",
        mutated="CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit WHEN OLD.at < {_UNTIL}\n",
        tests=("tests/broker/ledger/test_migrations.py::test_the_audit_cannot_be_altered",),
    ),
]
