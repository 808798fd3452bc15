"""What the owner writes on the command line, and what the job is told in its environment."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpushare.broker.wire import GrantModel
from jupyter_gpushare.training.claim import ClaimOptions, OptionError, claim_of
from jupyter_gpushare.training.environment import CAPS, job_environment
from jupyter_gpushare.training.memory_cap import CapError, automatic_cap, cap, parse_cap
from tests.training.fake_broker import lease_model

GIB = 1 << 30


def test_a_claim_is_named_after_its_program() -> None:
    """Interpreters and options are not what people call a job; every run is a claim of its own."""
    options = ClaimOptions("team-a", "0.5..1", max_reclaims=3, grace_s=60.0)
    first, second = (claim_of(options, ["/usr/bin/python3", "-u", "src/train.py", "--lr", "1"]) for _ in range(2))
    assert (first.name, first.share, first.kind) == ("train.py", "0.5..1", "training")
    assert (first.most_turns_lost, first.grace_s, first.is_parkable) == (3, 60.0, False)
    assert first.key != second.key


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (ClaimOptions(""), "--project"),
        (ClaimOptions("a", "1.5"), "--gpu"),
        (ClaimOptions("a", grace_s=-1), "--grace"),
        (ClaimOptions("a", grace_s=float("nan")), "--grace"),
        (ClaimOptions("a", max_reclaims=-1), "--max-reclaims"),
        (ClaimOptions("a", start_cost_s=float("inf")), "--start-cost"),
    ],
)
def test_a_wrong_option_is_named(options: ClaimOptions, named: str) -> None:
    """The error says which option and what to write, before anything is asked of a broker."""
    with pytest.raises(OptionError, match=named):
        claim_of(options, ["train.py"])


@pytest.mark.parametrize("text", ["", "lots", "-1GiB", "0", "unlimited"])
def test_a_wrong_cap_is_named(text: str) -> None:
    """--memory-cap is an amount, auto or none."""
    with pytest.raises(CapError, match="--memory-cap"):
        parse_cap(text)


def test_the_automatic_cap_leaves_the_parking_budget() -> None:
    """All jobs of a host together get what is not kept for parked state, each its part."""
    whole = automatic_cap(host=64 * GIB, parking_budget=32 * GIB, part=1.0)
    assert whole == 32 * GIB
    assert 4 * automatic_cap(host=64 * GIB, parking_budget=32 * GIB, part=0.25) == whole
    assert automatic_cap(host=GIB, parking_budget=GIB, part=0.1) == 2 * GIB


def test_a_cap_makes_the_jobs_own_allocation_fail() -> None:
    """Beyond it the job gets a MemoryError; taking the cap away, as for the copy of a park, lets it through."""
    code = "import sys\nfor line in sys.stdin:\n try: held = bytearray(int(line)); print('held', flush=True)\n"
    code += " except MemoryError: print('refused', flush=True)\n"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin
        assert job.stdout
        answers = []
        for size in (GIB // 2, None):
            cap(job.pid, size)
            job.stdin.write(b"%d\n" % GIB)
            job.stdin.flush()
            answers.append(job.stdout.readline())
        job.stdin.close()
    assert answers == [b"refused\n", b"held\n"]
    cap(job.pid, GIB)  # it has ended: nothing to cap, nothing to say
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


def grant(device: str, amount: str, memory: int) -> GrantModel:
    """A part of a device."""
    return GrantModel(device, "host", amount, memory, "0")


def test_the_job_sees_its_devices_and_no_others() -> None:
    """By UUID, in the order of the grants, whatever the owner's own environment says."""
    lease = lease_model(grants=[grant("GPU-b", "1", 8), grant("GPU-a", "1", 8)], share="2")
    given = {"CUDA_VISIBLE_DEVICES": "7", "PATH": "/bin", "TF_FORCE_GPU_ALLOW_GROWTH": "false"}
    environment = job_environment(given, lease, {}, socket=Path("/s"), restarts=2)
    assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert environment["PATH"] == "/bin"
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "false"
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    assert environment["GPUSHARE_RESTARTS"] == "2"
    share = {"share": "2", "project": "team-a", "devices": ["GPU-b", "GPU-a"], "memory": [8, 8]}
    assert json.loads(environment["GPUSHARE_JOB_SHARE"]) == share


def test_a_part_of_a_device_is_capped_in_the_frameworks() -> None:
    """Each gets its own limit, with room for the context; a whole device needs none; what the user set stays."""
    lease = lease_model(grants=[grant("GPU-a", "0.5", 10 * GIB)], bursts=[grant("GPU-a", "0.1", 2 * GIB)])
    totals = {"GPU-a": 20 * GIB}
    environment = job_environment({}, lease, totals, socket=Path("/s"), restarts=0)
    assert environment[CAPS] == f"{12 * GIB}/{20 * GIB}"
    assert int(environment["CUPY_GPU_MEMORY_LIMIT"]) == 12 * GIB - (640 << 20)
    assert 0.56 < float(environment["XLA_PYTHON_CLIENT_MEM_FRACTION"]) < 0.6
    own = job_environment({"XLA_CLIENT_MEM_FRACTION": "0.2"}, lease, totals, socket=Path("/s"), restarts=0)
    assert "XLA_PYTHON_CLIENT_MEM_FRACTION" not in own
    whole = lease_model(grants=[grant("GPU-a", "1", 20 * GIB)])
    assert CAPS not in job_environment({}, whole, totals, socket=Path("/s"), restarts=0)
