"""From the fields of the picker to a user's options. Whatever a form sends is untrusted: it is read, not believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.hub.cards import CUSTOM, CUSTOM_OPTION
from jupyter_gpushare.hub.form import KIND_OPTION
from jupyter_gpushare.hub.offers import NO_GPU, PROJECT_OPTION, SHARE_OPTION, NotOfferedError
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.hub.offers import Offers

__all__ = ["OURS", "read_picker"]

#: The fields of the picker, which nobody else's reader gets.
OURS: Final = (SHARE_OPTION, CUSTOM_OPTION, KIND_OPTION, PROJECT_OPTION)
_NOTHING_WRITTEN: Final = Message(
    "NO_OWN_SHARE", "Write a share of your own, for example 0.3..0.8, or choose another card."
)


def read_picker(offers: Offers, formdata: Mapping[str, Any]) -> dict[str, str]:
    """The options that the picker's fields come to: the share as it is kept, and the project if one was chosen.

    Raises:
        NotOfferedError: they ask for what is not offered; says what is.
    """
    asked = _first(formdata, SHARE_OPTION)
    if asked == CUSTOM:
        asked = _first(formdata, CUSTOM_OPTION)
        if not isinstance(asked, str) or not asked.strip():
            raise NotOfferedError(_NOTHING_WRITTEN)
    kind = _first(formdata, KIND_OPTION)
    if isinstance(asked, str) and isinstance(kind, str) and kind and "@" not in asked and asked != NO_GPU:
        asked = f"{asked.strip()}@{kind}"
    project = offers.project_in({PROJECT_OPTION: _first(formdata, PROJECT_OPTION)})
    share = offers.choose({} if asked is None else {SHARE_OPTION: asked})
    chosen = {SHARE_OPTION: NO_GPU if share is None else str(share)}
    return {**chosen, **({PROJECT_OPTION: project} if project else {})}


def _first(formdata: Mapping[str, Any], name: str) -> Any:
    """A form sends lists, and may send an empty one."""
    values = formdata.get(name)
    return (values[0] if values else None) if isinstance(values, list) else values
