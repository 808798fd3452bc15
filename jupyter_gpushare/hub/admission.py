"""Who may start a server with which share: one algorithm for every hub, with three things that an admin may decide.

The order of its steps is what keeps shares safe, so it is sealed: a claim is granted by the broker before a server
starts, from what the broker knows and from `user_options` alone, whatever a form showed or a program sent; and it is
ended when the server is gone, whatever happened to it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, final

from jupyter_gpushare.broker.client import BROKER, HUB_SERVICE, TOKEN
from jupyter_gpushare.broker.hub_wire import ClaimRequest
from jupyter_gpushare.hub.admission_words import away, no_room, refused
from jupyter_gpushare.hub.broker_link import BrokerAway, BrokerError
from jupyter_gpushare.hub.chaining import awaited
from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.denial import AWAY, NO_ROOM, SEE_OTHER, deny, is_page
from jupyter_gpushare.hub.offers import NO_GPU, NotOfferedError
from jupyter_gpushare.hub.outcomes import Outcome, count
from jupyter_gpushare.hub.picker_link import PickerLink
from jupyter_gpushare.hub.spawner_facts import form_of, groups_of, reserve_of
from jupyter_gpushare.hub.wait_link import WaitLink, WaitLinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tornado.web import HTTPError

    from jupyter_gpushare.broker.hub_wire import ClaimAnswer
    from jupyter_gpushare.hub.broker_link import BrokerLink
    from jupyter_gpushare.hub.offers import Offers
    from jupyter_gpushare.hub.site_urls import SiteUrls
    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.share import Share

__all__ = ["CLAIM", "PROJECT", "SHARE", "GpuShareAdmission", "SealedError", "Terms"]

_LOG: Final = logging.getLogger(__name__)
SHARE: Final = "GPUSHARE_SHARE"
PROJECT: Final = "GPUSHARE_PROJECT"
CLAIM: Final = "GPUSHARE_CLAIM"
_OURS: Final = (SHARE, PROJECT, CLAIM, BROKER, HUB_SERVICE, TOKEN)
_DENIED: Final = "_gpushare_denied"
_LONGEST_NAME: Final = 200
#: Codes with which the broker says that waiting would not help. With any other one there is no room now.
_REFUSED: Final = ("EXCEEDS_", "NO_SUCH_", "NOT_A_MEMBER", "KEY_IN_USE", "PARKED_")
_CLASH: Final = 409
#: The one that there is without a file, which everybody is in.
_USUAL_PROJECT: Final = "default"


class SealedError(TypeError):
    """A subclass changes a step that is sealed. Names it, and what may be changed."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What an admin has decided in `setup_gpushare`.

    Attributes:
        offers: what everybody may pick from.
        project: whose quota a share counts against: a name, a function of the spawner, or empty for the person's own.
        link: to the broker.
        urls: where the service is.
        queue_timeout_s: how long somebody may stand in line.
        broker_away: what becomes of a start while nobody can grant a share.
    """

    offers: Offers
    project: str | Callable[[Any], Any]
    link: BrokerLink
    urls: SiteUrls
    queue_timeout_s: float = 600.0
    broker_away: Literal["closed", "open"] = "closed"


class GpuShareAdmission:
    """Admits servers. Subclass it, and override `project_of`, `offers_for` or `word_denial`; each may be a coroutine.

    Args:
        terms: what the admin has decided.
    """

    _OPEN: ClassVar = frozenset({"project_of", "offers_for", "word_denial"})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        sealed = {name for name, value in vars(GpuShareAdmission).items() if getattr(value, "__final__", False)}
        if changed := sorted(sealed & vars(cls).keys()):
            raise SealedError(
                f"{cls.__name__} overrides {', '.join(changed)}, which is sealed; override one of "
                f"{', '.join(sorted(cls._OPEN))} instead"
            )

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._tasks: set[asyncio.Task[None]] = set()

    # What an admin may decide.

    def project_of(self, spawner: Any) -> Any:
        """The project that *spawner*'s share counts against; empty leaves it to the person's choice."""
        project = self.terms.project
        return project(spawner) if callable(project) else project

    def offers_for(self, spawner: Any) -> Any:  # noqa: ARG002  # for subclasses
        """The `Offers` that *spawner*'s person may pick from."""
        return self.terms.offers

    def word_denial(self, message: Message, spawner: Any) -> Any:  # noqa: ARG002  # for subclasses
        """How a refusal reads: *message*, or another one."""
        return message

    # What is sealed.

    @final
    async def offered(self, spawner: Any) -> Offers:
        """What *spawner*'s person may pick from."""
        offers: Offers = await awaited(self.offers_for(spawner))
        return offers

    @final
    async def admit(self, spawner: Any) -> None:
        """Have the share granted that *spawner*'s options ask for, and tell its server of it.

        Raises:
            HTTPError: no server may start; says why and what to do.
        """
        setattr(spawner, _DENIED, False)
        # What a start before this one was told is nobody's business any more. A new dict: an admin's hook may have
        # given one and the same to every spawner.
        spawner.environment = {name: value for name, value in spawner.environment.items() if name not in _OURS}
        share, project = await self._chosen(spawner)
        if share is None:
            self._tell(spawner, {SHARE: NO_GPU}, project)
            count(Outcome.NO_GPU)
            return
        request = self._request(spawner, share, project)
        try:
            answer = await self._claim(spawner, request)
        except asyncio.CancelledError:
            # The start was called off. Nobody else ends what may have been granted: the hub takes it for not begun.
            self._later(self._end(spawner))
            raise
        except BrokerError as error:
            raise await self._refused(spawner, request, error) from None
        except BrokerAway as error:
            await self._away(spawner, request, error)
            return
        self._tell(spawner, {SHARE: str(share), TOKEN: answer.token}, answer.lease.project)
        count(Outcome.GRANTED)

    @final
    async def release(self, spawner: Any) -> None:
        """Have the lease of *spawner*'s server ended, which is gone. Whatever goes wrong, the hub goes on."""
        if getattr(spawner, _DENIED, False):
            # This start never had a lease. Another of the same name may stand in line on an open wait page.
            setattr(spawner, _DENIED, False)
            return
        await self._end(spawner)

    @final
    async def deny(self, spawner: Any, message: Message, outcome: Outcome, **how: Any) -> HTTPError:
        """The exception that refuses *spawner*'s start with *message*, in the admin's words."""
        count(outcome)
        setattr(spawner, _DENIED, True)
        worded = await awaited(self.word_denial(message, spawner))
        return deny(worded, spawner, **how)

    @final
    async def _chosen(self, spawner: Any) -> tuple[Share | None, str]:
        try:
            offers = await self.offered(spawner)
            share = offers.choose(spawner.user_options)
            asked = offers.project_in(spawner.user_options)
        except NotOfferedError as error:
            raise await self.deny(spawner, error.message, Outcome.NOT_OFFERED) from None
        decided = str(await awaited(self.project_of(spawner)) or "")
        if share is None:
            return None, decided or asked
        return share, decided or asked or await self._own_project(spawner)

    @final
    async def _own_project(self, spawner: Any) -> str:
        """The project of who named none, as a program need not: the first one that it is in."""
        link = PickerLink(spawner.user.name, groups_of(spawner), [], time.time())
        # As patient as the claim itself: a wrong project is a wrong refusal, where a page only lacks its figures.
        picture = await self.terms.link.picture(self.terms.urls.for_hub(spawner), link, is_patient=True)
        return (picture.project if picture is not None else "") or _USUAL_PROJECT

    @final
    def _request(self, spawner: Any, share: Share, project: str) -> ClaimRequest:
        return ClaimRequest(
            share=str(share),
            project=project,
            person=spawner.user.name,
            name=(spawner.name or "server")[:_LONGEST_NAME],
            groups=groups_of(spawner),
            is_starting=True,
            reserve_s=reserve_of(spawner),
        )

    @final
    async def _claim(self, spawner: Any, request: ClaimRequest) -> ClaimAnswer:
        key = claim_key(spawner.user.name, spawner.name)
        return await self.terms.link.claim(self.terms.urls.for_hub(spawner), key, request)

    @final
    async def _refused(self, spawner: Any, request: ClaimRequest, error: BrokerError) -> HTTPError:
        if error.status == _CLASH and not error.code.startswith(_REFUSED):
            return await self._no_room(spawner, request, error)
        links = {"My shares": f"{self.terms.urls.for_browser(spawner)}sessions"}
        message = refused(error, request.share, request.project)
        return await self.deny(spawner, message, Outcome.REFUSED, links=links)

    @final
    async def _no_room(self, spawner: Any, request: ClaimRequest, error: BrokerError) -> HTTPError:
        """Send a person to wait on a page, which holds no place among those who start; tell a program to come back."""
        link = self._wait_url(spawner, request)
        message = no_room(error, request.share)
        if link and is_page(spawner):
            links = {"Wait for it": link}
            return await self.deny(spawner, message, Outcome.WAITS, status=SEE_OTHER, links=links, location=link)
        return await self.deny(spawner, message, Outcome.WAITS, status=NO_ROOM)

    @final
    def _wait_url(self, spawner: Any, request: ClaimRequest) -> str:
        """Where the person waits; empty where its form cannot be taken along, or somebody else sent it."""
        form = form_of(spawner)
        if form is None:
            return ""
        fields, then = form
        link = WaitLink(
            person=request.person,
            server=spawner.name,
            share=request.share,
            project=request.project,
            fields=fields,
            made=time.time(),
            next=then,
            reserve_s=request.reserve_s,
            queue_timeout_s=self.terms.queue_timeout_s,
            name=request.name,
        )
        try:
            return link.url(self.terms.urls.for_browser(spawner), self.terms.link.secret)
        except WaitLinkError:
            return ""

    @final
    async def _away(self, spawner: Any, request: ClaimRequest, error: BrokerAway) -> None:
        """Nobody can say what became of the claim: it is taken back, and the admin has decided what then."""
        _LOG.warning("The broker is away while %s starts: %s", request.person, error)
        await self._end(spawner)
        if self.terms.broker_away == "closed":
            raise await self.deny(spawner, away(), Outcome.AWAY_CLOSED, status=AWAY)
        # Its server claims by itself as soon as somebody answers, and says until then that nobody does.
        self._tell(spawner, {SHARE: request.share}, request.project)
        count(Outcome.AWAY_OPEN)

    @final
    async def _end(self, spawner: Any) -> None:
        person, key = spawner.user.name, claim_key(spawner.user.name, spawner.name)
        try:
            await self.terms.link.end(self.terms.urls.for_hub(spawner), key, person)
        except (BrokerAway, BrokerError) as error:
            count(Outcome.NOT_ENDED)
            _LOG.warning("The share of %s is ended when the service compares its books: %s", person, error)

    @final
    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)

    @final
    def _tell(self, spawner: Any, told: dict[str, str], project: str) -> None:
        """Put it into the server's environment, with where the broker is and under which name the hub knows its lease.

        A server without a lease has that name too: what it asks for later from Lab ends with it like any other.
        """
        key = claim_key(spawner.user.name, spawner.name)
        service = self.terms.urls.for_server(spawner)
        usual = {BROKER: service, HUB_SERVICE: service, CLAIM: key, **({PROJECT: project} if project else {})}
        spawner.environment = {**spawner.environment, **usual, **told}
