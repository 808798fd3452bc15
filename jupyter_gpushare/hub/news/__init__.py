"""News by signed webhooks: idle soon, your turn, called back, loss."""

from jupyter_gpushare.hub.news.service import NewsService

__all__ = ["NewsService"]
