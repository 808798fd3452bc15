"""The stories that exist, in the order in which the tour runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.demo.stories.hub import HubStory
from jupyter_gpushare.demo.stories.notebook import NotebookStory
from jupyter_gpushare.demo.stories.parking import ParkingStory
from jupyter_gpushare.demo.stories.share import ShareStory
from jupyter_gpushare.demo.stories.teams import TeamsStory

if TYPE_CHECKING:
    from jupyter_gpushare.demo.story import Story

__all__ = ["STORIES"]

STORIES: Final[tuple[type[Story], ...]] = (NotebookStory, ParkingStory, ShareStory, TeamsStory, HubStory)
