"""``jupyter gpushare apply``: puts a gpushare.toml in force, or shows what it would change."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text
from traitlets import Bool

from jupyter_gpushare.app.broker_command import BrokerCommand
from jupyter_gpushare.broker.admin_wire import ApplyAnswer, ApplyRequest

if TYPE_CHECKING:
    from rich.console import RenderableType

    from jupyter_gpushare.broker.client import BrokerClient

__all__ = ["ApplyApp"]


class ApplyApp(BrokerCommand):
    """Put projects, quotas and pools in force: jupyter gpushare apply [--dry-run] gpushare.toml."""

    name = "jupyter-gpushare-apply"
    description = __doc__
    examples = "jupyter gpushare apply --dry-run gpushare.toml"

    dry_run = Bool(help="Only show what it would change, and what it would over-commit.").tag(config=True)

    aliases = {}  # noqa: RUF012  # traitlets reads it from the class
    flags = {  # noqa: RUF012  # as above
        "json": ({"ApplyApp": {"json": True}}, "Print JSON."),
        "dry-run": ({"ApplyApp": {"dry_run": True}}, "Only show what it would change."),
    }

    def start(self) -> None:
        """Read the file, send it, and print what the broker says of it."""
        files, self.extra_args = self.extra_args, []
        if len(files) != 1:
            self.exit("Which file? For example: jupyter gpushare apply --dry-run gpushare.toml")
        try:
            self._text = Path(files[0]).read_text(encoding="utf-8")
        except OSError as error:
            self.exit(f"{files[0]} cannot be read: {error.strerror}.")
        except UnicodeDecodeError:
            self.exit(f"{files[0]} is no text in UTF-8.")
        super().start()

    async def asked(self, client: BrokerClient) -> ApplyAnswer:
        """What it changes."""
        return await client.request("POST", "apply", ApplyRequest(self._text, self.dry_run), type=ApplyAnswer)

    def shown(self, answer: ApplyAnswer) -> RenderableType:
        """A line for each change and each warning, and whether it is in force."""
        lines = [Text(f"  {line}") for line in answer.changes]
        lines += [Text(f"! {line}", style="yellow") for line in answer.warnings]
        return Group(*lines, Text(self._end(answer)))

    def _end(self, answer: ApplyAnswer) -> str:
        if not answer.changes:
            return "It changes nothing."
        if self.dry_run:
            return "Nothing is changed yet: leave out --dry-run to put it in force."
        return "It is in force."
