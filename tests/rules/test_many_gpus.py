"""A notebook of many GPUs inside its project's quota: whatever training does meanwhile, its host is made whole."""

from __future__ import annotations

import pytest

from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.pool import Pool
from tests.rules.builders import NOW, books, device_name, job, running, session
from tests.rules.story import Story

_HOSTS = 2
_GPUS = 8
_POOL = Pool("main")


def full_of_training(parts: int) -> Story:
    """Two hosts of eight GPUs, each GPU with so many jobs of a team without quota, which have just begun."""
    share = str(1 / parts)
    jobs = [
        running(job(f"{host}-{index}-{part}", share, "b"), device_name(host, index), turn_began=NOW)
        for host in range(1, _HOSTS + 1)
        for index in range(_GPUS)
        for part in range(parts)
    ]
    return Story(books(*jobs, hosts=_HOSTS, per_host=_GPUS, quotas={"a": str(_HOSTS * _GPUS), "b": "0"}, pools=[_POOL]))


def leave(story: Story) -> int:
    """Whoever is asked to leave does; how many that were."""
    asked = [key for key in story.snapshot.unsettled if story.status(key) in (["yielding"], ["parking"])]
    story.obeys(*asked)
    return len(asked)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_it_has_a_whole_host_a_minimum_turn_later(parts: int) -> None:
    """However small the pieces are in which training has the host, and though new jobs wait for every one of them."""
    story = full_of_training(parts)
    story.then(Submitted(session("large", str(_GPUS), "a")))
    for number in range(_GPUS):
        story.then(Submitted(job(f"next-{number}", "0.25", "b")))
    story.passes(_POOL.minimum_turn_s)
    left = 0
    while (leaving := leave(story)) and left < _GPUS * parts:
        left += leaving
    assert story.status("large") == ["granted"]
    assert left == _GPUS * parts
    assert len({story.snapshot.devices[uuid].host for uuid in story.lease("large").devices}) == 1


def test_it_waits_where_other_notebooks_keep_every_host_in_pieces() -> None:
    """What sessions are promised nobody takes, parked or not: no rule makes a host whole then, and it says so."""
    small = [running(session(f"s{host}", "1", "a"), device_name(host, 0)) for host in range(1, _HOSTS + 1)]
    story = Story(books(*small, hosts=_HOSTS, per_host=_GPUS, quotas={"a": str(_HOSTS * _GPUS)}))
    story.then(Submitted(session("large", str(_GPUS), "a")))
    story.passes(10 * _POOL.minimum_turn_s)
    assert story.status("large") == ["queued"]
    assert story.lease("large").reason == "BLOCKED_BY_FRAGMENTATION"
