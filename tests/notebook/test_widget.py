"""The widget in the kernel: what it sends to the page, when it follows the server, and what a console prints."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import ipywidgets  # type: ignore[import-untyped]
import pytest

from jupyter_gpushare import GpuShareWidget
from tests.notebook.fake_frameworks import GB, FakeTorch
from tests.notebook.fake_server import FakeServer, kernel, message, reading, view
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(name="widget")
def _widget() -> Iterator[GpuShareWidget]:
    widget = GpuShareWidget()
    yield widget
    stream = widget._stream
    widget.close()
    assert stream is None or stream.join(10), "the stream outlived the widget"


def shown(widget: GpuShareWidget) -> str:
    """All that the page gets."""
    return json.dumps(widget.view, ensure_ascii=False)


def sent(widget: GpuShareWidget) -> list[Any]:
    """The views sent to the page from now on."""
    views: list[Any] = []
    widget.observe(lambda change: views.append(change["new"]), names="view")
    return views


def test_it_is_an_ipywidget_that_needs_no_network_for_its_code() -> None:
    """It composes with other widgets, and its code comes with the package: hubs may have no way out."""
    assert issubclass(GpuShareWidget, ipywidgets.DOMWidget)
    code = str(GpuShareWidget._esm)
    assert "export default" in code
    assert "http" not in code
    assert "import " not in code
    assert "innerHTML" not in code


def test_nothing_is_followed_until_it_is_displayed(server: FakeServer, widget: GpuShareWidget) -> None:
    """A widget that nobody sees costs the server nothing."""
    assert widget._stream is None
    assert server.seen == []
    assert "Connecting" in shown(widget)


def test_displayed_it_shows_the_share_live(server: FakeServer, widget: GpuShareWidget) -> None:
    """The first display already holds figures, and later ones arrive by themselves."""
    widget._repr_mimebundle_()
    until(lambda: "6.1 GB" in shown(widget), "the first view")

    def changed() -> bool:
        server.push(view(kernel=kernel(memory=reading(2 * GB))))
        return "2.0 GB" in shown(widget)

    until(changed, "the new figure")


@pytest.mark.usefixtures("server")
def test_inside_another_widget_it_is_live_too(widget: GpuShareWidget) -> None:
    """In a box no display hook runs: the page's count of views starts the stream."""
    widget.set_state({"_view_count": 1})
    until(lambda: "6.1 GB" in shown(widget), "the first view")


def test_it_stops_when_no_place_shows_it_and_comes_back(server: FakeServer, widget: GpuShareWidget) -> None:
    """The last view gone ends the stream, and a new one begins it again."""
    widget.set_state({"_view_count": 1})
    until(lambda: server.watchers == 1, "the stream")
    stream = widget._stream
    widget.set_state({"_view_count": 0})
    assert stream is not None
    assert stream.join(10), "the stream goes on though nobody looks"
    until(lambda: server.watchers == 0, "the server sees it go")
    widget.set_state({"_view_count": 1})
    until(lambda: server.watchers == 1, "the stream again")


def test_closing_stops_it(server: FakeServer, widget: GpuShareWidget) -> None:
    """A closed widget leaves no watcher at the server."""
    widget._repr_mimebundle_()
    until(lambda: server.watchers == 1, "the stream")
    stream = widget._stream
    widget.close()
    assert stream is not None
    assert stream.join(10), "the stream goes on though the widget is closed"
    until(lambda: server.watchers == 0, "the server sees it go")


def test_the_page_hears_only_of_what_is_seen(server: FakeServer, widget: GpuShareWidget) -> None:
    """A new sample with the same figures sends nothing: messages without news would look like activity."""
    widget._repr_mimebundle_()
    until(lambda: "6.1 GB" in shown(widget), "the first view")
    views = sent(widget)

    def changed() -> bool:
        server.push(view(at=2000.0))
        server.push(view(at=3000.0, memory=reading(7_400_000_001)))
        server.push(view(state=message("HOLDING", "No cell is running.")))
        return bool(views)

    until(changed, "the news")
    assert ["No cell is running." in json.dumps(one) for one in views] == [True] * len(views)


def test_garbage_is_shown_as_a_problem_and_passes(server: FakeServer, widget: GpuShareWidget) -> None:
    """A server that babbles leaves a widget that says so, and the next good frame is shown."""
    server.view = b"<html>"
    widget._repr_mimebundle_()
    until(lambda: "makes no sense" in shown(widget), "the problem")

    def mended() -> bool:
        server.push(view())
        return "6.1 GB" in shown(widget)

    until(mended, "the view")


def test_without_a_server_it_says_so(widget: GpuShareWidget) -> None:
    """In VS Code or a plain kernel the widget explains itself."""
    widget._repr_mimebundle_()
    assert "No GPU share here" in shown(widget)
    assert "Release still frees cached memory" in shown(widget)


@pytest.mark.usefixtures("server")
def test_a_console_prints_the_card_as_text(widget: GpuShareWidget) -> None:
    """Where no widget can be shown, the display is the same card in words."""
    data, _ = widget._repr_mimebundle_()
    assert data["text/plain"].startswith("GPU share  7.4 GB")
    assert "application/vnd.jupyter.widget-view+json" in data


def test_the_button_frees_cached_memory_and_says_what_came_back(
    widget: GpuShareWidget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Release in the widget is the same release as `%gpushare release`."""
    torch = FakeTorch(5 * GB, 2 * GB)
    monkeypatch.setitem(sys.modules, "torch", torch)
    widget._handle_custom_msg({"action": "release"}, [])
    assert torch.emptied == 1
    assert widget.view["notice"]["state"]["text"].startswith("Released 2.0 GB")


@pytest.mark.parametrize("content", [None, [], "release", {"action": "end_kernel"}, {}])
def test_other_messages_from_the_page_do_nothing(widget: GpuShareWidget, content: Any) -> None:
    """The page can ask for a release of cached memory and for nothing else."""
    before = widget.view
    widget._handle_custom_msg(content, [])
    assert widget.view == before
