"""``jupyter gpushare projects``: the teams, their quotas, and what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.app.broker_command import BrokerCommand
from jupyter_gpushare.app.tables import projects_table
from jupyter_gpushare.broker.wire import ProjectsAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jupyter_gpushare.broker.client import BrokerClient

__all__ = ["ProjectsApp"]


class ProjectsApp(BrokerCommand):
    """Projects: their quotas, their fair shares now, and what they have of the GPUs."""

    name = "jupyter-gpushare-projects"
    description = __doc__
    aliases = {}  # noqa: RUF012  # traitlets reads it from the class
    flags = {"json": ({"ProjectsApp": {"json": True}}, "Print JSON.")}  # noqa: RUF012  # as above

    async def asked(self, client: BrokerClient) -> ProjectsAnswer:
        """Every project that the asker may see."""
        return await client.request("GET", "projects", type=ProjectsAnswer)

    def shown(self, answer: ProjectsAnswer) -> RenderableType:
        """A table, or how to make the first project."""
        if not answer.projects:
            return "There is no project yet. Write a gpushare.toml, then: jupyter gpushare apply gpushare.toml"
        return projects_table(answer.projects)
