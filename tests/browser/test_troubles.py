"""What a person sees when something is missing or breaks: a true sentence, and no number that only looks live."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from jupyter_gpushare.devices.simulated.faults import DriverLost
from jupyter_gpushare.devices.simulated.machine import Machine
from tests.browser.sidebar import Sidebar

if TYPE_CHECKING:
    from tests.browser.conftest import Lab

pytestmark = pytest.mark.browser


def test_a_lost_driver_is_told_and_comes_back(page: Page, lab: Lab) -> None:
    """When the driver stops answering the panel says so, and recovers by itself when it is back."""
    page.goto(lab.url())
    sidebar = Sidebar(page).open()
    expect(sidebar.state).to_have_attribute("data-state", "NOTHING_HELD")
    machine = Machine.open(lab.machine)
    machine.inject(DriverLost())
    expect(sidebar.state).to_have_attribute("data-state", "DRIVER_LOST")
    machine.clear(DriverLost)
    expect(sidebar.state).to_have_attribute("data-state", "NOTHING_HELD")
    machine.close()


def test_a_server_without_the_extension(page: Page, lab: Lab) -> None:
    """A sidebar on a server that lacks our part says what to install instead of showing nothing."""
    page.route(re.compile("gpushare/api"), lambda route: route.fulfill(status=404, body="{}"))
    page.route_web_socket(re.compile("gpushare/api"), lambda socket: socket.close())
    page.goto(lab.url())
    expect(Sidebar(page).open().state).to_have_attribute("data-state", "NO_EXTENSION")


def test_a_lost_server_dims_the_numbers(page: Page, lab: Lab) -> None:
    """Without word from the server for some seconds the panel says so and its figures no longer look live."""
    sockets: list[WebSocketRoute] = []
    page.route_web_socket(re.compile("gpushare/api"), lambda socket: sockets.append(socket.connect_to_server()))
    page.goto(lab.url())
    sidebar = Sidebar(page).open()
    expect(sidebar.panel).to_have_attribute("data-contact", "live")
    page.context.set_offline(True)
    for socket in sockets:
        socket.close()
    expect(sidebar.state).to_have_attribute("data-state", "LOST_SERVER")
    expect(sidebar.panel).to_have_attribute("data-stale", "true")
    page.context.set_offline(False)
    expect(sidebar.panel).to_have_attribute("data-contact", "live")


def test_garbage_from_the_wire_shows_nothing_false(page: Page, lab: Lab) -> None:
    """Frames that are no snapshot are dropped; the panel neither breaks nor shows them."""

    def speak_garbage(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            for garbage in ("not json", "[]", '{"type": "snapshot"}', '{"type": "other", "devices": 5}'):
                socket.send(garbage)
            socket.send(message)

        server.on_message(pass_on)

    page.route_web_socket(re.compile("gpushare/api"), speak_garbage)
    page.goto(lab.url())
    expect(Sidebar(page).open().state).to_have_attribute("data-state", "NOTHING_HELD")
