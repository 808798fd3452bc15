"""What a token may do here, by what the hub says of it."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.hub.service.hub_rest import Identified
from jupyter_gpushare.hub.service.standing import Level, standing_of

ENTER = "access:services!service=gpushare"
FULL = "tokens!user=ana"


def level(*scopes: str, admins: tuple[str, ...] = (), browser: bool = False, **said: Any) -> Level:
    """What somebody called ana may, with *scopes*."""
    known = Identified(**{"name": "ana", "kind": "user", "scopes": list(scopes), **said})
    return standing_of(known, "gpushare", admins, is_browser=browser).level


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        ((), Level.NOTHING),
        (("users:activity!user=ana", "access:servers!server=ana/"), Level.NOTHING),
        (("access:services!service=another",), Level.NOTHING),
        ((ENTER,), Level.LOOK),
        (("access:services",), Level.LOOK),
        (("custom:gpushare:read",), Level.LOOK),
        (("custom:gpushare:read!user=ana",), Level.LOOK),
        (("custom:gpushare:read!user=bo",), Level.NOTHING),
        (("custom:gpushare:write!server=ana/lab",), Level.ACT),
        (("custom:gpushare:write!server=bo/ana",), Level.NOTHING),
        (("custom:gpushare:read", "custom:gpushare:write"), Level.ACT),
        (("custom:gpushare:admin",), Level.ADMINISTER),
        (("custom:gpushare:administer",), Level.NOTHING),
        ((FULL,), Level.ACT),
        (("tokens!user=bo",), Level.NOTHING),
    ],
)
def test_a_token_may_what_its_scopes_say(scopes: tuple[str, ...], expected: Level) -> None:
    """Each scope gives what the table says, for its own person alone."""
    assert level(*scopes) is expected


def test_a_browser_that_signed_in_acts_for_its_person() -> None:
    """Signing in gives the right to enter, and whoever sits there acts."""
    assert level(ENTER, browser=True) is Level.ACT
    assert level(browser=True) is Level.NOTHING


def test_an_admin_is_one_in_the_browser_and_not_by_a_servers_token() -> None:
    """Every program in an admin's notebook server can read its token: that must not make it an admin."""
    assert level(ENTER, admin=True, browser=True) is Level.ADMINISTER
    assert level("custom:gpushare:write", ENTER, admin=True) is Level.ACT
    assert level(FULL, admin=True) is Level.ADMINISTER


def test_the_admins_file_names_people_and_the_hubs_groups() -> None:
    """`admins` holds names, and groups with an @ before them."""
    assert level(ENTER, admins=("ana",), browser=True) is Level.ADMINISTER
    assert level(ENTER, admins=("@ops",), groups=["ops"], browser=True) is Level.ADMINISTER
    assert level(ENTER, admins=("@ops",), groups=["dev"], browser=True) is Level.ACT


def test_nobody_becomes_a_group_by_its_name() -> None:
    """A user whose own name is @ops is not in the group ops."""
    assert level(ENTER, name="@ops", admins=("@ops",), browser=True) is Level.ACT


def test_a_service_is_no_person() -> None:
    """A service may look, and administer with the scope; no groups and no flag make it more."""
    assert level(ENTER, kind="service", admin=True, groups=["ops"], admins=("@ops", "ana")) is Level.LOOK
    assert level("custom:gpushare:admin", kind="service") is Level.ADMINISTER
    assert level("custom:gpushare:read!service=ana", kind="service") is Level.LOOK
    assert level("custom:gpushare:read!user=ana", kind="service") is Level.NOTHING
