"""The page docs/hub-reference.md, made from the code: ``python -m jupyter_gpushare.hub.reference_page``."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

from traitlets.config import Config

from jupyter_gpushare.broker.access import HUB_ACCESS, Role
from jupyter_gpushare.broker.openapi_verbs import VERBS
from jupyter_gpushare.hub import registration
from jupyter_gpushare.hub.admission import GpuShareAdmission
from jupyter_gpushare.hub.culling import handlers as culling
from jupyter_gpushare.hub.culling.__main__ import CullingApp
from jupyter_gpushare.hub.pages.actions import ACTIONS
from jupyter_gpushare.hub.reference_words import (
    ENVIRONMENT,
    FILES,
    INTRODUCTION,
    OF_CULLING,
    OVERRIDES,
    PAGES,
    ROLES,
    SCOPES,
    SERVICE,
    SERVICE_ROLE,
    WHOSE,
)
from jupyter_gpushare.hub.service.command import HubServiceApp
from jupyter_gpushare.hub.service.page_access import PAGE_ACCESS
from jupyter_gpushare.hub.setup import setup_gpushare
from jupyter_gpushare.hub.site_urls import SERVICE as SERVICE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from traitlets.config import Application

__all__ = ["arguments_of", "page"]

_ARGUMENT_INDENT: Final = 4
_NEWEST: Final = (6,)


def page() -> str:
    """The whole page, in Markdown."""
    return "\n".join([
        INTRODUCTION,
        *_setup(),
        *_overrides(),
        *_service(),
        *_culling(),
        *_environment(),
        *_files(),
        *_scopes(),
        *_pages(),
        *_interface(),
    ])  # fmt: skip


def arguments_of(function: Callable[..., Any]) -> dict[str, str]:
    """What the docstring of *function* says of each argument, in its order."""
    lines = iter(inspect.cleandoc(function.__doc__ or "").splitlines())
    said: dict[str, str] = {}
    name = ""
    for line in lines:
        if line == "Args:":
            break
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line and indent < _ARGUMENT_INDENT:
            break
        if indent == _ARGUMENT_INDENT:
            name, _, text = line.strip().partition(": ")
            said[name] = text
        elif line:
            said[name] += f" {line.strip()}"
    return {name: _marked(text) for name, text in said.items()}


def _setup() -> Iterator[str]:
    yield "## `setup_gpushare`\n"
    first, _, _ = inspect.cleandoc(setup_gpushare.__doc__ or "").partition("\nArgs:")
    yield "```python\nfrom jupyter_gpushare.hub import setup_gpushare\n\nsetup_gpushare(c)\n```\n"
    yield _marked(first)
    parameters = inspect.signature(setup_gpushare).parameters
    rows = [
        (f"`{name}`", _default(parameters[name].default), _sentence(text))
        for name, text in arguments_of(setup_gpushare).items()
        if parameters[name].default is not inspect.Parameter.empty
    ]
    yield _table(("argument", "default", "means"), rows)


def _overrides() -> Iterator[str]:
    yield OVERRIDES
    names = sorted(name for name, value in vars(GpuShareAdmission).items() if _is_open(name, value))
    rows = [(f"`{name}{_parameters(name)}`", _doc(getattr(GpuShareAdmission, name))) for name in names]
    yield _table(("method", "gives"), rows)


def _is_open(name: str, value: object) -> bool:
    return not name.startswith("_") and inspect.isfunction(value) and not getattr(value, "__final__", False)


def _parameters(name: str) -> str:
    return f"({', '.join(inspect.signature(getattr(GpuShareAdmission, name)).parameters)})"


def _service() -> Iterator[str]:
    yield SERVICE
    yield _table(("option", "default", "means"), _options(HubServiceApp))


def _culling() -> Iterator[str]:
    yield OF_CULLING
    yield _table(("option", "default", "means"), _options(CullingApp))


def _options(application: type[Application]) -> Iterator[Sequence[str]]:
    """The application's own options, as they are written on its command line."""
    short = {full.partition(".")[2]: name for name, full in application.aliases.items() if isinstance(full, str)}
    flags = {trait: name for name, (said, _) in application.flags.items() for each in said.values() for trait in each}
    for name, trait in application.class_own_traits(config=True).items():
        text = f"--{short[name]}" if name in short else f"--{flags.get(name, f'{application.__name__}.{name}')}"
        yield f"`{text}`", _default(trait.default()), trait.help


def _environment() -> Iterator[str]:
    yield "## Environment\n"
    yield _table(("variable", "of", "says"), ((f"`{name}`", whose, text) for name, whose, text in ENVIRONMENT))


def _files() -> Iterator[str]:
    yield "## The state directory\n"
    yield "`state` of `setup_gpushare`, which only the hub's own user may enter (0700). Back all of it up.\n"
    yield _table(("file", "holds"), ((f"`{name}`", text) for name, text in FILES.items()))


def _scopes() -> Iterator[str]:
    yield SCOPES
    rows = [(f"`{name}`", str(scope["description"])) for name, scope in registration.CUSTOM_SCOPES.items()]
    yield _table(("scope", "allows"), rows)
    c = Config()
    registration.add_roles(c, _NEWEST)
    mine = next(role for role in c.JupyterHub.load_roles if role["name"] == f"{SERVICE_NAME}-service")
    yield SERVICE_ROLE.format(role=mine["name"], scopes=", ".join(f"`{scope}`" for scope in mine["scopes"]))


def _pages() -> Iterator[str]:
    yield (
        "## Pages\n\nBelow `/services/gpushare/`, in the hub's own look, with its announcement and without its menu of "
        "services. One signs in with the hub.\n"
    )
    rows = [
        (f"`{PAGES[route][0]}`", verb, _who(roles), PAGES[route][1])
        for (route, verb), roles in PAGE_ACCESS.items()
        if route in PAGES
    ]
    yield _table(("page", "verb", "for", "shows"), rows)
    yield "Forms post to `actions/<name>`, with `_xsrf` and `next`. A field with a question mark may be missing.\n"
    actions = [
        (f"`{name}`", ", ".join(f"`{field}`" for field in action.fields), WHOSE[action.whose])
        for name, action in ACTIONS.items()
    ]
    yield _table(("action", "fields", "for"), actions)


def _interface() -> Iterator[str]:
    yield (
        "## API\n\nBelow `/services/gpushare/api/v1`, with `Authorization: Bearer <token>` of the hub. "
        "`openapi.json` there has every field.\n"
    )
    yield _table(("route", "verb", "for", "does"), _routes())
    yield "What tells culling of servers, of the same interface:\n"
    rows = [(f"`/{route}`", verb, _who(roles)) for (route, verb), roles in culling.ACCESS.items()]
    yield _table(("route", "verb", "for"), rows)
    yield "Who is who:\n"
    yield _table(("who", "is"), ((role.value.replace("_", " "), ROLES[role]) for role in Role))


def _routes() -> Iterator[Sequence[str]]:
    for verb in VERBS:
        yield f"`{verb.path}`", verb.method.upper(), _who(HUB_ACCESS[verb.route, verb.method.upper()]), verb.summary


def _who(roles: Collection[Role]) -> str:
    if set(roles) == set(Role):
        return "anybody"
    return ", ".join(role.value.replace("_", " ") for role in Role if role in roles)


def _doc(function: Any) -> str:
    return _marked(inspect.cleandoc(function.__doc__ or ""))


def _marked(text: str) -> str:
    """Docstrings mark what is typed with two back-quotes, and arguments with stars."""
    return text.replace("``", "`")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _default(value: Any) -> str:
    if value in ("", None, (), []):
        return "none"
    if isinstance(value, bool):
        return f"`{value}`"
    if inspect.isclass(value):
        return f"`{value.__name__}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(map(_quoted, value))}]`"
    return f"`{_quoted(value)}`" if isinstance(value, str) else f"`{value}`"


def _quoted(value: object) -> str:
    return f'"{value}"'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
