"""The service's pages: HTML made on the server in the hub's own look, and its parts that change while one looks."""

from jupyter_gpushare.hub.pages.asked import Asked, PageName, Waiting
from jupyter_gpushare.hub.pages.frame import STATIC, Frame, Templates
from jupyter_gpushare.hub.pages.rendering import Page, render

__all__ = ["STATIC", "Asked", "Frame", "Page", "PageName", "Templates", "Waiting", "render"]
