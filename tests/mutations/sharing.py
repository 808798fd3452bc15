"""Lies about who holds what, what a release did, and who may do it."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

ATTRIBUTION = "devices/attribution.py"
RELEASE = "session/release.py"
AUTHORIZATION = "session/principal.py"
HANDLERS = "session/handlers.py"
GUARD = "session/overrun.py"
NOTICES_ATTRIBUTION = ("tests/devices/test_attribution.py",)
NOTICES_RELEASE = ("tests/session/test_release.py::test_an_ended_kernel_is_attested_by_the_device",)
NOTICES_FREEING = ("tests/session/test_free_cache.py::test_what_is_cached_falls_and_what_is_used_stays",)
NOTICES_CONFIRMING = ("tests/session/test_release.py::test_ending_a_kernel_is_announced_first",)
NOTICES_GUARD = "tests/session/test_overrun.py"
WHO_MAY = "tests/session/test_authorization.py::test_who_may_do_what"

MUTATIONS = [
    Mutation(
        name="a session is given the whole device's memory",
        file=ATTRIBUTION,
        original="    memory = _sum(process.memory for process in mine)\n",
        mutated="    memory = use.memory\n",
        tests=NOTICES_ATTRIBUTION,
    ),
    Mutation(
        name="a notebook is given the whole device's memory",
        file=ATTRIBUTION,
        original="holder.by_device[use.uuid].append(process)\n",
        mutated="holder.by_device[use.uuid].append(type(process)(process.pid, use.memory, process.utilisation))\n",
        tests=NOTICES_ATTRIBUTION,
    ),
    Mutation(
        name="a release frees nothing",
        file=RELEASE,
        original="troubles += await self._free_cache(kernel)\n",
        mutated="troubles += []\n",
        tests=NOTICES_FREEING,
    ),
    Mutation(
        name="a release ends nothing",
        file=RELEASE,
        original="            await self._kernels.end(kernel.id)\n",
        mutated="            pass\n",
        tests=NOTICES_RELEASE,
    ),
    Mutation(
        name="a release ends kernels without the owner's word",
        file=RELEASE,
        original="        if _loss_of(request) is None and not _cells(kernels):\n",
        mutated="        if request is not None:\n",
        tests=NOTICES_CONFIRMING,
    ),
    Mutation(
        name="the owner's word for one thing is taken for any other",
        file=RELEASE,
        original="        if not hmac.compare_digest(request.confirm.encode(), confirm.encode()):\n",
        mutated="        if not request.confirm:\n",
        tests=("tests/session/test_release.py::test_the_owners_word_is_for_what_was_announced",),
    ),
    Mutation(
        name="the authorizer says yes to every user",
        file=AUTHORIZATION,
        original="    if not await ensure_async(handler.authorizer.is_authorized(handler, user, action, RESOURCE)):\n",
        mutated="    if user is handler:\n",
        tests=(f"{WHO_MAY}[reader]",),
    ),
    Mutation(
        name="a kernel's token opens what is the user's alone",
        file=AUTHORIZATION,
        original='        if kernel_id is None or kernels == "no":\n',
        mutated="        if kernel_id is None:\n",
        tests=(f"{WHO_MAY}[user as kernel A]",),
    ),
    Mutation(
        name="a kernel's token parks, keeps, resumes and ends every kernel",
        file=HANDLERS,
        original="        if self.speaking_kernel not in (None, kernel_id):\n",
        mutated="        if kernel_id == self:\n",
        tests=(f"{WHO_MAY}[kernel B]",),
    ),
    Mutation(
        name="the guard ends the largest, not the one that grew",
        file=GUARD,
        original="{one.process: one.memory - before.get(one.process, 0) for one in over[-1].held}\n",
        mutated="{one.process: one.memory for one in over[-1].held}\n",
        tests=(f"{NOTICES_GUARD}::test_the_one_that_grew_is_the_offender_not_the_one_that_holds_most",),
    ),
    Mutation(
        name="the guard ends a neighbour that has the process id by now",
        file=GUARD,
        original="            if identify(offender.process.pid) != offender.process or"
        " self._owner_of(offender.process.pid) != owner:\n",
        mutated="            if handle is None:\n",
        tests=(f"{NOTICES_GUARD}::test_a_process_that_is_no_longer_ours_is_not_ended",),
    ),
    Mutation(
        name="the guard ends without its grace",
        file=GUARD,
        original="        if verdict.over_s >= self._grace_s:\n",
        mutated="        if watch.warned:\n",
        tests=(f"{NOTICES_GUARD}::test_who_frees_in_time_is_left_alone",),
    ),
    Mutation(
        name="the guard ends on a guess",
        file=GUARD,
        original="    return process.memory.value is None or process.memory.attribution is not Attribution.EXACT\n",
        mutated="    return process.memory.value is None\n",
        tests=(f"{NOTICES_GUARD}::test_nobody_is_ended_on_a_guess",),
    ),
]
