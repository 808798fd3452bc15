"""The page docs/preflight.md, made from the table: ``python -m jupyter_gpushare.parking.preflight_page``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from jupyter_gpushare.parking.conditions import CONDITIONS
from jupyter_gpushare.parking.harmful_drivers import DEFECTS, Effect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_gpushare.parking.conditions import Condition
    from jupyter_gpushare.parking.harmful_drivers import Version

__all__ = ["page"]

_INTRODUCTION = """\
# What stands against parking

Before a kernel is parked, and whenever the sidebar shows whether it could be, these conditions are looked at in this
order. The first one that holds is the answer; nothing is touched then, and the notebook goes on as it is. With none
the kernel is *parkable*: so many bytes would move, in about so many seconds.

Conditions marked "asks the kernel" are looked at only when parking really begins. What an admin or the owner may allow
is then done with a caution, which says what is not guaranteed.

This page is generated from `jupyter_gpushare/parking/conditions.py` by
`python -m jupyter_gpushare.parking.preflight_page`; a test compares the two.
"""

_EFFECTS = {
    Effect.DAMAGES_STATE: "parking is refused (`HARMFUL_DRIVER`)",
    Effect.HANGS_AT_KILL: "parking is allowed; a process that was resumed is checkpointed again before any kill",
    Effect.BREAKS_NCCL: "programs with an NCCL process group are refused (`NCCL`)",
    Effect.REFUSES_PYTORCH: "programs that use PyTorch are refused (`PYTORCH_REFUSED`)",
    Effect.LACKS_IPC: "programs that share GPU memory are refused (`CUDA_IPC`)",
}


def page() -> str:
    """The whole page, in Markdown."""
    parts = [
        _INTRODUCTION,
        "## Conditions\n",
        _table(("", "code", "when", "what people read", "what helps", "may be allowed by"), _conditions()),
        "\n## Drivers\n",
        "Drivers older than 570 cannot park. What single branches are known to do wrong, and what follows:\n",
        _table(("versions", "what follows", "who saw it"), _drivers()),
    ]
    return "\n".join(parts)


def _conditions() -> Iterator[Sequence[str]]:
    for number, condition in enumerate(CONDITIONS, 1):
        when = condition.title + (" (asks the kernel)" if condition.asks_kernel else "")
        yield str(number), f"`{condition.code}`", when, condition.sentence, condition.remedy, _allowed_by(condition)


def _allowed_by(condition: Condition) -> str:
    permission = condition.permission
    return "nobody" if permission is None else f"{permission.who}: `{permission.setting}`"


def _drivers() -> Iterator[Sequence[str]]:
    for one in DEFECTS:
        until = "on" if one.fixed is None else f"to before {_text(one.fixed)}"
        yield f"{_text(one.first)} {until}", _EFFECTS[one.effect], one.report


def _text(version: Version) -> str:
    """As NVIDIA writes it: two digits in every part but the first."""
    return ".".join([str(version[0]), *(f"{number:02}" for number in version[1:])])


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
