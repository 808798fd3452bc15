"""A token that may only look: it says nothing of how idle a server is, as people are warned and stopped by that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.broker.access import Caller

if TYPE_CHECKING:
    from .culling_town import CullingTown


def test_who_may_only_look_testifies_to_nothing(play: Any) -> None:
    """Neither of a share of its person nor of a server without one; with a token that may act, the same is heard."""

    async def story(town: CullingTown) -> None:
        claim = await town.serve()
        known = town.bench.broker._identify
        assert known is not None

        async def looks_only(request: Any) -> Caller | None:
            caller = await known(request)
            is_looking = request.headers.get("Authorization") == "Bearer ana, who looks"
            return Caller("ana", groups=frozenset(), reads_only=True) if is_looking else caller

        town.bench.broker._identify = looks_only
        for said in ({"lease": claim.lease.id}, {"server": "hub:ana/other"}):
            answer = await town.testify("ana, who looks", **said, idle_s=36_000.0)
            assert (answer.status, answer.code) == (403, "FORBIDDEN")
        shares = (await town.evidence()).shares
        assert list(shares) == ["hub:ana/"]
        assert not shares["hub:ana/"].sight.speaks
        await town.outlook("ana", lease=claim.lease.id, idle_s=36_000.0)
        assert (await town.evidence()).shares["hub:ana/"].sight.speaks

    play(story)
