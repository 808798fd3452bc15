"""Lies about a hub: whose request it is, what a token may, whose server is gone, and who must wait in line anew."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

ACCESS = "tests/hub/service/test_access.py"
STANDING = "tests/hub/service/test_standing.py"
COMPARED = "tests/hub/service/test_reconciliation.py"
BACK = "tests/rules/test_stepping_back.py"
RECONCILIATION = "hub/service/reconciliation.py"

MUTATIONS = [
    Mutation(
        name="the cookie alone proves that a page of ours asks",
        file="hub/service/hub_identity.py",
        original="        if not is_of_our_own(request, sitting):\n",
        mutated="        if request is sitting:\n",
        tests=(
            f"{ACCESS}::test_no_form_and_no_socket_works_without_the_token",
            f"{ACCESS}::test_the_api_takes_the_cookie_of_a_page_with_its_token",
        ),
    ),
    Mutation(
        name="scripts of anybody's server read the pages",
        file="hub/service/browser.py",
        original='    if request.method in _SAFE and mode == "navigate" and not is_socket:\n',
        mutated="    if request.method in _SAFE and mode and not is_socket:\n",
        tests=(f"{ACCESS}::test_a_script_of_another_server_reads_no_page_by_the_cookie",),
    ),
    Mutation(
        name="one browser's proof is every other's",
        file="hub/service/browser.py",
        original='    said = _PURPOSE + session.encode("utf-8", "replace") + b"\\0" + token\n',
        mutated="    said = _PURPOSE\n",
        tests=(f"{ACCESS}::test_no_form_and_no_socket_works_without_the_token",),
    ),
    Mutation(
        name="a token that may look acts",
        file="hub/service/calling.py",
        original="        reads_only=standing.level < Level.ACT,\n",
        mutated="        reads_only=False,\n",
        tests=(f"{ACCESS}::test_a_token_that_only_looks_does_nothing",),
    ),
    Mutation(
        name="a token without any scope of ours is as good as one",
        file="hub/service/hub_identity.py",
        original="        if standing is not None and standing.level is Level.NOTHING:\n",
        mutated="        if standing is self:\n",
        tests=("tests/hub/service/test_identity.py::test_a_token_that_was_made_for_something_else_opens_nothing",),
    ),
    Mutation(
        name="a scope for somebody else's server is one for everybody's",
        file="hub/service/standing.py",
        original='        return said.kind == "user" and whom.partition("/")[0] == said.name\n',
        mutated='        return said.kind == "user"\n',
        tests=(f"{STANDING}::test_a_token_may_what_its_scopes_say",),
    ),
    Mutation(
        name="an admin's notebook server administers",
        file="hub/service/standing.py",
        original='        is_person_itself = _has(said, "tokens") or (is_browser and level >= Level.LOOK)\n',
        mutated="        is_person_itself = level >= Level.LOOK\n",
        tests=(f"{STANDING}::test_an_admin_is_one_in_the_browser_and_not_by_a_servers_token",),
    ),
    Mutation(
        name="a service that may look is told whose servers there are",
        file="hub/culling/handlers.py",
        original='    (EVIDENCE, "GET"): frozenset({Role.HUB, Role.ADMIN}),\n',
        mutated='    (EVIDENCE, "GET"): frozenset({Role.SERVICE, Role.HUB, Role.ADMIN}),\n',
        tests=("tests/hub/culling/test_service.py::test_who_may_do_what",),
    ),
    Mutation(
        name="a server's own token goes wherever GPUSHARE_BROKER says",
        file="app/hub_token.py",
        original="    if _plain(endpoint.url) not in {_plain(url) for url in _of_the_hub(environ)}:\n",
        mutated="    if not endpoint.url:\n",
        tests=(
            "tests/app/test_hub_token.py::test_it_is_shown_to_nobody_else",
            "tests/app/test_hub_token.py::test_a_terminal_of_a_hubs_server_asks_as_its_person",
        ),
    ),
    Mutation(
        name="leases of servers that are gone stay for ever",
        file=RECONCILIATION,
        original="            await self._end(lease.person, lease.key)\n            outcome.ended.append(lease.id)\n",
        mutated="            outcome.ended.append(lease.id)\n",
        tests=(f"{COMPARED}::test_what_has_no_server_is_ended_and_what_has_one_is_not",),
    ),
    Mutation(
        name="a server that came since the list was made is gone",
        file=RECONCILIATION,
        original="        if user is not None and (lease.person, lease.key) in _servers_of(user):\n            return\n",
        mutated="        del user\n",
        tests=(f"{COMPARED}::test_a_server_that_appears_while_one_looks_is_seen",),
    ),
    Mutation(
        name="who waits on a page has no server, and loses the place",
        file=RECONCILIATION,
        original="        if now is None or (now.hold is not None and not now.hold.is_starting):\n",
        mutated="        if now is None:\n",
        tests=(f"{COMPARED}::test_who_waits_on_a_page_is_left_in_line",),
    ),
    Mutation(
        name="a hub that has just begun ends whom it does not know yet",
        file=RECONCILIATION,
        original="        if self._is_connected(lease.id) and lease.id not in self._doubted:\n",
        mutated="        if lease is self:\n",
        tests=(f"{COMPARED}::test_a_lease_whose_holder_is_there_is_ended_only_at_the_second_time",),
    ),
    Mutation(
        name="a server that never says hello loses its share",
        file=RECONCILIATION,
        original="            await self._keep(lease.person, lease.key, max(_KEPT_S, 2 * self._every_s + 60))\n",
        mutated="",
        tests=(f"{COMPARED}::test_a_server_that_never_says_hello_keeps_its_share",),
    ),
    Mutation(
        name="who restores where there is no room goes on",
        file="rules/step.py",
        original="    step_back,\n",
        mutated="",
        tests=(f"{BACK}::test_in_a_class_it_waits_in_its_place_until_the_other_one_parks",),
    ),
    Mutation(
        name="who steps back may still restore on the old word",
        file="rules/stepping_back.py",
        original="lease.enter(Status.PARKING, now, epoch=lease.epoch + 1)",
        mutated="lease.enter(Status.PARKING, now)",
        tests=(f"{BACK}::test_in_a_class_it_waits_in_its_place_until_the_other_one_parks",),
    ),
    Mutation(
        name="who leaves soon sends others away all the same",
        file="rules/stepping_back.py",
        original="    return excess > sum(part.amount.millionths for each in others for part in each.grants"
        " if part.device == uuid)\n",
        mutated="    del others\n    return True\n",
        tests=(f"{BACK}::test_it_goes_on_where_what_is_in_its_way_is_leaving",),
    ),
]
