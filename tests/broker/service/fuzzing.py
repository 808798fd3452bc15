"""Calls what an OpenAPI document says there is, with data that fit it and data that do not, as everybody.

Each case is made once and sent as each caller, those who may not do it first. What is looked at is what the document
says of the answer, and that nothing that is refused has changed the books.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import requests
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import TimePassed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from jupyter_gpushare.broker.memory_ledger import MemoryBooks
    from jupyter_gpushare.broker.service import Broker

__all__ = ["CASES", "Fuzzed", "operations"]

#: Of each kind, right and wrong, for each operation.
CASES: Final = 10
PLACES: Final = ("path", "query")
#: What is longer, or has more fields, is refused by HTTP itself, before anybody here sees it.
_LONGEST_QUERY: Final = 60_000
_MOST_FIELDS: Final = 1000
_REFUSED: Final = 400
_BAD_REQUEST: Final = 400
_SERVED: Final = 300
_CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


#: What failed is told as it was sent: to look for less of the same takes longer than to read it.
_sparing = settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def operations(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every path and verb of *document*."""
    return [(path, verb) for path, verbs in document["paths"].items() for verb in verbs]


@dataclass
class Fuzzed:
    """An interface that is asked from another thread than its broker's.

    Attributes:
        broker: who answers.
        memory: what its ledger has.
        callers: the token of each, empty for nobody.
        known: what there is here, by the names of fields and parameters: most of what is sent is of these.
        more: what beside the books must stay as it is when somebody is refused.
        answers: how often each caller got which status.
    """

    broker: Broker
    memory: MemoryBooks
    url: str
    document: dict[str, Any]
    callers: Mapping[str, str]
    known: Mapping[str, Sequence[Any]]
    more: Callable[[], Any] = lambda: None
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)

    async def fuzz(self, path: str, verb: str) -> None:
        """Ask for *path* with *verb*, as everybody."""
        self.loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._fuzz, path, verb)

    def _fuzz(self, path: str, verb: str) -> None:
        modes = import_module("schemathesis").GenerationMode
        document = _without_tokens(self.document)
        operation = import_module("schemathesis").openapi.from_dict(document)[path][verb]
        fields = _Fields.of(document["paths"][path][verb], document)
        may_be_wrong = [modes.NEGATIVE] if fields.all else []
        with requests.Session() as session:
            for mode in (modes.POSITIVE, *may_be_wrong):
                self._fuzz_with(self._cases(operation, mode, fields), session, fields.all)
        served = {status for (_, status), _ in self.answers.items() if status < _SERVED}
        assert served, f"nobody was answered, and so nothing was tried: {self.answers}"

    def _cases(self, operation: Any, mode: Any, fields: _Fields) -> st.SearchStrategy[Any]:
        """What is sent, with what is known in most of it: of nothing but strangers only the refusal is seen."""
        # Else it would make values of what it finds in our sources, which are others tomorrow.
        words = {"generation_mode": mode, "feedback": import_module("schemathesis.generation.feedback").NO_FEEDBACK}
        cases: st.SearchStrategy[Any] = operation.as_strategy(**words)
        if mode is import_module("schemathesis").GenerationMode.POSITIVE:
            filled = _filled(cases, fields, self.known)
            return cases | filled | filled | filled
        path = {name: quote(str(self.known[name][0]), safe="") for name in fields.path}
        return cases | operation.as_strategy(**words, path_parameters=path) if path and fields.others else cases

    def _fuzz_with(self, cases: st.SearchStrategy[Any], session: requests.Session, names: Sequence[str]) -> None:
        @_sparing
        @given(cases)
        def everybody_asks(case: Any) -> None:
            case.headers.clear()
            query = urlencode(case.query or {}, doseq=True)
            assume(len(query) < _LONGEST_QUERY and query.count("&") < _MOST_FIELDS)
            self._settle()
            before = self._books()
            for who, token in self.callers.items():
                before = self._ask(case, session, who, token, names, before)

        everybody_asks()

    def _ask(
        self, case: Any, session: requests.Session, who: str, token: str, names: Sequence[str], before: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask as *who*; the books afterwards."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = case.call(base_url=self.url, session=session, headers=headers)
        self.answers[who, response.status_code] += 1
        try:
            case.validate_response(response, checks=_checks(), headers=headers)
            if response.status_code == _BAD_REQUEST:
                _check_names(response, names)
            if response.status_code < _REFUSED:
                self._settle()
                return self._books()
            after = self._books()
            changed = [name for name in after if after[name] != before[name]]
            assert not changed, f"{response.status_code}, and yet these are others: {changed}"
        except BaseException as error:
            error.add_note(f"asked as {who}: {case.as_curl_command()}\n{response.status_code} {response.text[:1000]}")
            raise
        return before

    def _settle(self) -> None:
        """Wait until everything that was told is decided on and kept."""
        done = self.broker.reconciler.submit([TimePassed()])
        asyncio.run_coroutine_threadsafe(done, self.loop).result(60)

    def _books(self) -> dict[str, Any]:
        """What nobody changes by asking for what is refused: leases, what admins set, the audit, the asks."""
        books, memory = self.broker.reconciler.snapshot, self.memory
        # In which groups somebody is the hub says with each request, whatever becomes of it.
        projects = {name: replace(each, joined=frozenset()) for name, each in books.projects.items()}
        set_ = (projects, dict(books.pools), dict(books.hosts), dict(books.devices), books.is_parking_stopped)
        # That somebody asked and was refused is written down.
        refused = {each.entry.lease for each in memory.audit if each.entry.verb is Verb.REFUSED}
        done = [each for each in memory.audit if each.entry.lease not in refused]
        return {
            "leases": dict(books.leases),
            "set": set_,
            "audit": done,
            "asks": list(memory.past.asks),
            "more": self.more(),
        }


def _checks() -> list[Any]:
    found = import_module("schemathesis.specs.openapi.checks")
    plain = import_module("schemathesis.checks")
    return [getattr(plain, name, None) or getattr(found, name) for name in _CHECKS]


def _check_names(response: Any, names: Sequence[str]) -> None:
    """A refusal says which field is wrong, unless what was sent has none."""
    said = json.loads(response.text)
    try:
        sent = json.loads(response.request.body) if response.request.body else {}
    except ValueError:
        return
    text = said["error"]["text"]
    is_told = said["field"] or any(name in text for name in (*names, "url", "unknown field"))
    assert is_told or not isinstance(sent, dict), "which field is wrong is not said"


@dataclass(frozen=True)
class _Fields:
    """How everything is called that may be sent: in the path, in the query, and in the body at its top or below."""

    path: Sequence[str]
    query: Sequence[str]
    body: Sequence[str]
    below: Sequence[str]

    @classmethod
    def of(cls, operation: Mapping[str, Any], document: Mapping[str, Any]) -> _Fields:
        """What *operation* of *document* takes."""
        placed = {where: [each["name"] for each in operation["parameters"] if each["in"] == where] for where in PLACES}
        schemas = document["components"]["schemas"]
        found = [
            list(schemas[name].get("properties", ())) for name in _refs(operation.get("requestBody", {}), document)
        ]
        return cls(
            placed["path"], placed["query"], found[0] if found else (), [name for each in found[1:] for name in each]
        )

    @property
    def others(self) -> Sequence[str]:
        """Those that are not in the path."""
        return (*self.query, *self.body, *self.below)

    @property
    def all(self) -> Sequence[str]:
        """All of them."""
        return (*self.path, *self.others)


@st.composite
def _filled(draw: st.DrawFn, cases: st.SearchStrategy[Any], fields: _Fields, known: Mapping[str, Sequence[Any]]) -> Any:
    """One of *cases*, in which what is known stands where it belongs."""
    case = draw(cases)
    for name in fields.path:
        case.path_parameters[name] = quote(str(draw(st.sampled_from(known[name]))), safe="")
    for names, there in ((fields.query, case.query), (fields.body, case.body)):
        for name in names:
            if name in known and isinstance(there, dict):
                there[name] = draw(st.sampled_from(known[name]))
    return case


def _without_tokens(document: Mapping[str, Any]) -> dict[str, Any]:
    """*document*, in which nothing is said of tokens: it is not for the fuzzer to make some up."""
    open_ = copy.deepcopy(dict(document))
    open_["components"].pop("securitySchemes")
    for _, operation in ((path, each) for path, verbs in open_["paths"].items() for each in verbs.values()):
        operation.pop("security")
    return open_


def _refs(part: Any, document: Mapping[str, Any]) -> Iterator[str]:
    """The schemas that *part* is made of, the outermost first."""
    if isinstance(part, dict):
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            yield name
            yield from _refs(document["components"]["schemas"][name], document)
        for each in part.values():
            yield from _refs(each, document)
    elif isinstance(part, list):
        for each in part:
            yield from _refs(each, document)
