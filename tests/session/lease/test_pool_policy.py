"""What an admin decides for a pool reaches the notebooks in it: as a default, as a bound, and while they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.admin_wire import ApplyAnswer, ApplyRequest
from jupyter_gpushare.broker.pool_policy import PoolPolicy
from jupyter_gpushare.session.lease.pool import isolation_under, parking_under, timeout_under
from tests.session.parking.conftest import HOLD

if TYPE_CHECKING:
    from jupyter_gpushare.session.isolation.mode import Mode
    from jupyter_gpushare.session.wire import ParkingMode
    from tests.session.lease.conftest import Kept


@pytest.fixture(name="gpushare_options")
def _gpushare_options(kept: Kept) -> dict[str, Any]:
    """A session of that broker, whose own admin has said when it is idle."""
    return {"broker": f"unix:{kept.socket}", "idle_timeout_s": 3600.0}


async def apply(kept: Kept, pool: str) -> ApplyAnswer:
    """Have the admin's file say that of all devices."""
    return await kept.client.request(
        "POST", "apply", ApplyRequest(f"[pools.class]\n{pool}\n", dry_run=False), ApplyAnswer
    )


async def shown(api: Any, what: Any) -> Any:
    """The session, once *what* is true of it."""
    session = await api("session")
    return session if session["lease"] is not None and what(session) else None


@pytest.mark.parametrize(
    ("pool", "own", "mode"),
    [("off", "park", "off"), ("observe", "park", "observe"), ("observe", "off", "off"), (None, "park", "park")],
)
def test_the_less_is_parked(pool: Any, own: ParkingMode, mode: str) -> None:
    """A pool never has more parked than a server's own setting allows, nor the server more than the pool."""
    assert parking_under(PoolPolicy("p", parking=pool), own) == mode


@pytest.mark.parametrize(
    ("pool", "own", "mode"), [("mps", "none", "mps"), ("caps", "mig", "mig"), (None, "caps", "caps")]
)
def test_the_stronger_isolation_holds(pool: Any, own: Mode, mode: str) -> None:
    """A pool's isolation is the least; a server that is stricter stays so."""
    assert isolation_under(PoolPolicy("p", isolation=pool), own) == mode


@pytest.mark.parametrize(
    ("pool_s", "own_s", "is_default", "timeout_s"),
    [
        (600.0, 60.0, False, 60.0),
        (600.0, 3600.0, False, 600.0),
        (600.0, None, False, 600.0),
        (3600.0, 600.0, True, 3600.0),
        (None, None, False, None),
    ],
)
def test_the_shorter_timeout_holds(pool_s: Any, own_s: Any, is_default: bool, timeout_s: Any) -> None:  # noqa: FBT001
    """A pool's timeout is not exceeded, not by "never" either; it is longer only where nobody here said anything."""
    assert timeout_under(PoolPolicy("p", idle_timeout_s=pool_s), own_s, is_default=is_default) == timeout_s


async def test_what_a_pool_says_reaches_a_running_session(
    kept: Kept, start_kernel: Any, run: Any, api: Any, until: Any
) -> None:
    """`apply` changes mode and timeout of a server that runs, and the sidebar says which pool set them."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    before = await until(lambda: shown(api, lambda session: session["lease"]["status"] == "running"))
    assert before["parking_mode"] == "park"
    assert before["lease"]["policy"] is None
    await apply(kept, 'parking = "observe"\nidle_timeout = "5m"')
    after = await until(lambda: shown(api, lambda session: session["parking_mode"] == "observe"))
    assert after["lease"]["policy"]["text"] == (
        "Set by pool class: notebooks are parked only when their owners ask for it, idle timeout at most 5 min."
    )
    policy = after["kernels"][0]["parking"]["policy"]
    assert (policy["idle_timeout_s"], policy["source"], policy["pool"]) == (300.0, "pool", "class")
    await apply(kept, "")
    again = await until(lambda: shown(api, lambda session: session["parking_mode"] == "park"))
    assert again["lease"]["policy"] is None
    assert again["kernels"][0]["parking"]["policy"]["source"] == "configuration"
    await apply(kept, 'idle_timeout = "2h"')
    longer = await until(lambda: shown(api, lambda session: session["lease"]["policy"] is not None))
    policy = longer["kernels"][0]["parking"]["policy"]
    assert (policy["idle_timeout_s"], policy["source"]) == (3600.0, "configuration")
    await apply(kept, "")
    written_down = await apply(kept, 'idle_timeout = "10m"')
    assert written_down.changes == ["pool class: bounds its notebook servers"]


async def test_where_a_pool_parks_nothing_release_says_so(
    kept: Kept, start_kernel: Any, run: Any, park: Any, api: Any, until: Any
) -> None:
    """In a pool with parking off nothing is parked, not even when its owner asks, and the reason is told."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await apply(kept, 'parking = "off"')
    await until(lambda: shown(api, lambda session: session["parking_mode"] == "off"))
    refused = await park(kernel_id)
    assert refused["status"] == "refused"
    assert "Parking is switched off in pool class." in refused["message"]["text"]
    assert kept.status() == "running"


async def test_a_kernel_that_starts_is_held_as_the_pool_says(
    kept: Kept, start_kernel: Any, run: Any, api: Any, until: Any, page_of: Any
) -> None:
    """The pool's isolation is in the environment of kernels that start from then on; people of older ones are told."""
    old = await start_kernel()
    await run(old, "import os; assert 'GPUSHARE_MEMORY_CAPS' not in os.environ")
    await until(lambda: kept.status() == "running")
    await apply(kept, 'isolation = "caps"')
    told = await until(
        lambda: shown(api, lambda session: any(n["message"]["code"] == "ISOLATED_BY_POOL" for n in session["notices"]))
    )
    assert told["lease"]["policy"]["text"] == "Set by pool class: isolation caps."
    new = await start_kernel()
    assert (await run(new, "import os; assert os.environ['GPUSHARE_MEMORY_CAPS']"))["status"] == "ok"
