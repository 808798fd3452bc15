"""Lies about parking: each of them would cost a user what was on the GPU, or more."""

from __future__ import annotations

from tests.mutations.mutation import Mutation

PARKER = "parking/parker.py"
BRING_BACK = "parking/bring_back.py"
CLERK = "parking/checkpoint_process.py"
DRIVER = "devices/simulated/checkpointing.py"
NOTICES_BYTES = (
    "tests/parking/test_simulated_checkpoint.py::test_everything_is_as_it_was_though_a_neighbour_overwrote_the_device",
)
STEPS = "tests/parking/test_parker.py"
NOTICES_ORDER = (f"{STEPS}::test_no_process_is_checkpointed_before_all_are_locked",)
NOTICES_ROOM = (f"{STEPS}::test_neighbours_that_take_the_room_before_an_undo_lose_nobody",)
NOTICES_CLAIM = (f"{STEPS}::test_a_claim_that_fails_stops_the_restore",)
NOTICES_ONE_RESTORE = (f"{STEPS}::test_a_kernel_that_is_asked_back_twice_is_restored_once",)
NOTICES_LOSS = (f"{STEPS}::test_a_process_that_the_driver_lost_is_said_to_be_lost",)

MUTATIONS = [
    Mutation(
        name="the copy is skipped: what was on the device is not taken along",
        file=DRIVER,
        original="arenas[part.holding.device].save(part.extents)) for part in parts",
        mutated="[]) for part in parts",
        tests=NOTICES_BYTES,
    ),
    Mutation(
        name="the copy is skipped: what was taken along is not brought back",
        file=DRIVER,
        original="                arenas[part.holding.device].bring_back(extents, pieces)\n",
        mutated="                arenas[part.holding.device].bring_back(extents, ())\n",
        tests=("tests/parking/test_simulated_checkpoint.py::test_a_process_can_park_itself",),
    ),
    Mutation(
        name="the room check is skipped: what the device has free does not matter",
        file=BRING_BACK,
        original="        if reading.free < need:\n",
        mutated="        if need < 0:\n",
        tests=NOTICES_ROOM,
    ),
    Mutation(
        name="the room check is skipped: room is claimed in words only",
        file=CLERK,
        original="        self._checkpoint.claim(call.device, call.size)\n",
        mutated="",
        tests=NOTICES_CLAIM,
    ),
    Mutation(
        name="the room check is skipped: a restore asks for no claim",
        file=CLERK,
        original="            if device not in claimed or not self._tokens.holds(device, call.holder):\n",
        mutated="            if device in claimed and not self._tokens.holds(device, call.holder):\n",
        tests=("tests/parking/test_checkpoint_process.py::test_a_token_without_a_claim_permits_no_restore",),
    ),
    Mutation(
        name="the device's token is not waited for",
        file=BRING_BACK,
        original="            if not await self._checkpoint.take_token(device, holder):\n",
        mutated="            if await self._checkpoint.take_token(device, holder) is None:\n",
        tests=("tests/parking/test_parker_neighbours.py::test_one_device_serves_one_resume_at_a_time",),
    ),
    Mutation(
        name="processes are checkpointed before all are locked",
        file=PARKER,
        original="""\
            await self._do(Step.LOCK, process, self._checkpoint.lock(process), ProcessState.LOCKED)
        await begin(Step.CHECKPOINT)
        for process in target.processes:
""",
        mutated="""\
            await self._do(Step.LOCK, process, self._checkpoint.lock(process), ProcessState.LOCKED)
            await begin(Step.CHECKPOINT)
""",
        tests=NOTICES_ORDER,
    ),
    Mutation(
        name="parked is what was asked for, not what the driver attests",
        file=PARKER,
        original="            await self._expect(Step.ATTEST_PARKED, process, ProcessState.CHECKPOINTED)\n",
        mutated="            await asyncio.sleep(0)\n",
        tests=(f"{STEPS}::test_what_the_driver_does_not_attest_is_not_parked",),
    ),
    Mutation(
        name="running is what was asked for, not what the driver attests",
        file=BRING_BACK,
        original="        await self._attest(target, lost)\n",
        mutated="        await asyncio.sleep(0)\n",
        tests=NOTICES_LOSS,
    ),
    Mutation(
        name="a process is restored twice",
        file=BRING_BACK,
        original="        for process in away:\n            size =",
        mutated="        for process in [*away, *away]:\n            size =",
        tests=NOTICES_ONE_RESTORE,
    ),
    Mutation(
        name="two resumes of one kernel run at once",
        file=PARKER,
        original="        turn = self._turns.get(kernel_id)\n",
        mutated="        turn = None\n",
        tests=NOTICES_ONE_RESTORE,
    ),
    Mutation(
        name="processes are unlocked before they are restored",
        file=BRING_BACK,
        original="""\
        lost = await self._restore_all(target, away, begin, thaw) if away else {}
        await self._unlock_all(target, begin)
""",
        mutated="""\
        await self._unlock_all(target, begin)
        lost = await self._restore_all(target, away, begin, thaw) if away else {}
""",
        tests=NOTICES_ORDER,
    ),
    Mutation(
        name="a step begins before it is in the journal",
        file=PARKER,
        original="            await self._write(target, step)\n        except (OSError, sqlite3.Error) as error:\n            raise",
        mutated="            await asyncio.sleep(0)\n        except (OSError, sqlite3.Error) as error:\n            raise",
        tests=(f"{STEPS}::test_a_journal_that_cannot_be_written_stops_a_park_but_no_resume",),
    ),
    Mutation(
        name="host memory is promised twice",
        file="parking/host_memory.py",
        original="        if size > left:\n",
        mutated="        if left is None:\n",
        tests=(f"{STEPS}::test_what_does_not_fit_the_budget_is_not_touched",),
    ),
    Mutation(
        name="a signal reaches whoever has the process id now",
        file="parking/stopping.py",
        original="        if not is_alive(process):\n",
        mutated="        if handle is None:\n",
        tests=("tests/parking/test_stopping.py::test_a_process_with_the_same_id_is_not_touched",),
    ),
    Mutation(
        name="background work is no obstacle",
        file="parking/obstacles.py",
        original='    return {"work": ", ".join(shown)} if shown else None\n',
        mutated="    return None\n",
        tests=("tests/parking/test_preflight.py::test_background_work_is_named",),
    ),
]
