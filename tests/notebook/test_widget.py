"""The widget in the kernel: what it sends to the page, when it follows the server, and what a console prints."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

import ipywidgets  # type: ignore[import-untyped]
import pytest

from jupyter_gpushare import GpuShareWidget
from jupyter_gpushare.session import wire
from tests.notebook.fake_frameworks import GB, FakeTorch
from tests.notebook.fake_server import KERNEL_ID, FakeServer, kernel, message, parking, reading, view
from tests.notebook.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(name="widget")
def _widget() -> Iterator[GpuShareWidget]:
    widget = GpuShareWidget()
    yield widget
    stream = widget._stream
    widget.close()
    assert stream is None or stream.join(60), "the stream outlived the widget"


def shown(widget: GpuShareWidget) -> str:
    """All that the page gets."""
    return json.dumps(widget.view, ensure_ascii=False)


def press(widget: GpuShareWidget, action: str, turn: int | None = None) -> None:
    """Press a button on the page as it is drawn now, or as it was in an earlier turn."""
    widget._handle_custom_msg({"action": action, "turn": widget.view["turn"] if turn is None else turn}, [])


def labels(widget: GpuShareWidget) -> list[str]:
    """The words on the buttons."""
    return [button["label"] for button in widget.view["buttons"]]


def show(widget: GpuShareWidget, server: FakeServer, **changes: Any) -> None:
    """Have the server show this kernel's parking, and wait until the widget has it."""
    parked = parking(**changes)
    server.view = view(kernel=kernel(parking=parked))
    widget._repr_mimebundle_()

    def seen() -> bool:
        server.push(view(kernel=kernel(parking=parked)))
        now = widget._parking
        return now is not None and (now.status, now.message.text) == (parked.status, parked.message.text)

    until(seen, f"the widget shows {parked.status}")


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
    assert stream.join(60), "the stream goes on though nobody looks"
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
    assert stream.join(60), "the stream goes on though the widget is closed"
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
    """Where there is no parking, Release in the widget is `%gpushare release --cache`."""
    torch = FakeTorch(5 * GB, 2 * GB)
    monkeypatch.setitem(sys.modules, "torch", torch)
    press(widget, "free_cache")
    assert torch.emptied == 1
    assert widget.view["notice"]["state"]["text"].startswith("Released 2.0 GB")


@pytest.mark.parametrize(
    "content", [None, [], "release", {"action": "end_kernel", "turn": 0}, {"action": ["park"]}, {"action": "park"}, {}]
)
def test_other_messages_from_the_page_do_nothing(widget: GpuShareWidget, content: Any) -> None:
    """The page can ask for what the buttons do and for nothing else."""
    before = widget.view
    widget._handle_custom_msg(content, [])
    assert widget.view == before


def test_with_parking_release_parks_and_keep_keeps(server: FakeServer, widget: GpuShareWidget) -> None:
    """The two buttons ask the server for this notebook, and the outcome stands below them."""
    show(widget, server)
    assert labels(widget) == ["Release", "Keep 1 h"]
    press(widget, "park")
    assert widget.view["notice"]["state"]["text"].startswith("Now 7.4 GB move to host memory")
    press(widget, "keep")
    assert widget.view["notice"]["state"]["text"].startswith("Kept for you until")
    bodies = [seen.body for seen in server.seen if seen.method == "POST"]
    assert bodies == [
        {"level": "park", "kernel_id": KERNEL_ID, "when": "idle"},
        {"seconds": 3600, "kernel_id": KERNEL_ID},
    ]


def test_while_parked_there_is_nothing_to_press(server: FakeServer, widget: GpuShareWidget) -> None:
    """A press could not reach the parked kernel; the sentence says what brings it back."""
    said = "7.4 GB safe in host memory since 14:02. Run any cell and it returns (about 2 s)."
    show(widget, server, status="parked", message=message("PARKED", said))
    assert labels(widget) == []
    state = widget.view["card"]["state"]
    assert (state["role"], state["text"]) == ("parked", said)


def test_a_press_that_waited_for_the_resume_parks_nothing(server: FakeServer, widget: GpuShareWidget) -> None:
    """Release pressed just before the notebook was parked is not carried out when it has come back."""
    show(widget, server)
    turn = widget.view["turn"]
    show(widget, server, status="parking", message=message("PARKING", "Parking 7.4 GB. Nothing is lost."))
    show(widget, server)
    press(widget, "park", turn)
    assert [seen for seen in server.seen if seen.method == "POST"] == []
    press(widget, "park")
    assert len([seen for seen in server.seen if seen.method == "POST"]) == 1


def test_where_parking_is_refused_the_cache_can_be_freed(server: FakeServer, widget: GpuShareWidget) -> None:
    """The reason and its remedy are there before anything is pressed, and the button is called what it does."""
    refusal, remedy = message("NOT_X86", "This is no x86-64."), message("NOT_X86_REMEDY", "Use another machine.")
    show(widget, server, refusal=refusal, remedy=remedy)
    assert labels(widget) == ["Free cached memory", "Keep 1 h"]
    assert "Cannot park: This is no x86-64. Use another machine." in widget.view["card"]["notes"]


def test_kept_and_asked_have_their_own_buttons(server: FakeServer, widget: GpuShareWidget) -> None:
    """What is kept can be given free, and what is asked for is not asked for twice."""
    show(widget, server, kept_until=time.time() + 3600)
    assert labels(widget) == ["Release", "Stop keeping"]
    show(widget, server, status="asked", message=message("ASKED", "As soon as the cell has ended."))
    assert labels(widget) == ["Keep 1 h"]


def test_a_countdown_is_left_to_the_page(server: FakeServer, widget: GpuShareWidget) -> None:
    """The kernel does not send a message each second for a clock that the page can read itself."""
    template = "Idle for {idle}. Your GPU is handed back in {left}. Nothing is lost."
    parks_at = time.time() + 250

    def counting(left: str) -> Any:
        said = wire.MessageModel(
            "COUNTING_DOWN", template, {"idle": "5 min", "left": left}, template.format(idle="5 min", left=left)
        )
        return {"status": "counting_down", "message": said, "parks_at": parks_at}

    show(widget, server, **counting("4:10"))
    assert widget.view["card"]["state"]["countdown"] == {
        "before": "Idle for 5 min. Your GPU is handed back in ",
        "after": ". Nothing is lost.",
        "ends_at": parks_at,
    }
    views = sent(widget)
    show(widget, server, **counting("4:09"))
    assert views == []
    assert "handed back in 4:09" in repr(widget)
