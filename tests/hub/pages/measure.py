"""How long the pages take with 100 devices and 1,000 sessions, and how much of them is sent while 20 leases a second change.

``python -m tests.hub.pages.measure``; it prints, and judges nothing: `make bench-hub` does, through a real service.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from itertools import pairwise

from jupyter_gpushare.broker.models import View
from jupyter_gpushare.hub.pages import PageName
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.lease import Lease, Status
from tests.hub.pages.still import StillSite, page_of
from tests.hub.pages.worlds import NOW, crowd

_TIMES = 10
_SECONDS = 20
_CHANGES_A_SECOND = 20


async def measure() -> None:
    """Print all of it."""
    site = crowd()
    people = {"overview": "user-3", "sessions": "user-3", "project": "root", "admin": "root"}
    for name, person in people.items():
        viewer = site.viewer(person, is_admin=person == "root")
        times, size = [], 0
        for _ in range(_TIMES):
            # Nothing is known from before: as when somebody is the first to look after a change.
            site = crowd()
            began = time.perf_counter()
            size = len((await page_of(PageName(name), viewer, site)).html.encode())
            times.append(time.perf_counter() - began)
        print(  # noqa: T201  # what it is for
            f"{name:9} {statistics.median(times) * 1000:6.0f} ms, at most {max(times) * 1000:.0f} ms; {size / 1000:.0f} KB"
        )
    await _stream(crowd())


async def _stream(site: StillSite) -> None:
    chance = random.Random(7)  # noqa: S311  # no secret
    pages, times = [], []
    for second in range(_SECONDS):
        keys = chance.sample(sorted(site.books.leases), _CHANGES_A_SECOND)
        books = site.books.with_change(Change(leases={key: _moved(site.books.leases[key], second) for key in keys}))
        site._still = View(books, NOW + second)
        began = time.perf_counter()
        pages.append((await page_of("overview", site.viewer("user-3"), site)).fragments)
        times.append(time.perf_counter() - began)
    sent = [
        len(json.dumps({key: html for key, html in new.items() if old.get(key) != html}).encode())
        for old, new in pairwise(pages)
    ]
    print(  # noqa: T201  # what it is for
        f"stream    {statistics.mean(sent) / 1000:6.1f} KB/s at {_CHANGES_A_SECOND} changes/s, at most {max(sent) / 1000:.1f}; "
        f"{statistics.median(times) * 1000:.0f} ms each"
    )


def _moved(lease: Lease, second: int) -> Lease:
    if lease.status is Status.RUNNING:
        return lease.enter(Status.PARKING, NOW + second)
    return lease.enter(Status.RUNNING, NOW + second) if lease.status is Status.PARKING else lease


if __name__ == "__main__":
    asyncio.run(measure())
