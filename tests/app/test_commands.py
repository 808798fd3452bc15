"""The table of commands: every line leads to a command, and no command is paid for by the others."""

from __future__ import annotations

import subprocess
import sys

import pytest
from traitlets.utils.importstring import import_item

from jupyter_gpushare.app import GpuShareApp


@pytest.mark.parametrize("name", GpuShareApp.subcommands)
def test_a_line_leads_to_its_command(name: str) -> None:
    """The list of commands says of each what the command says of itself."""
    where, told = GpuShareApp.subcommands[name]
    command = import_item(where)
    assert command.name == f"jupyter-gpushare-{name}"
    assert command.description == told


def test_the_list_loads_no_command() -> None:
    """Asking for help, or starting a job, does not load the broker, the demo and everything else."""
    asked = (
        "import sys, jupyter_gpushare.app as app; print([n for n in sys.modules if n.startswith(app.__name__ + '.')])"
    )
    printed = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
