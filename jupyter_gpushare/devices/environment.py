"""What a process was started with: one variable of its initial environment (proc_pid_environ(5)), and whose it is.

A process may write over its own environment, and whoever starts it chooses it: it is its user's word and no more.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from jupyter_gpushare.devices.identity import identify

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity

__all__ = ["Word", "inherited"]

# More than any environment that a notebook server gives on. Of a longer one the beginning is read.
_LONGEST: Final = 1 << 20


class Word(NamedTuple):
    """What a process says by its environment.

    Attributes:
        value: the variable's value; empty where it has none, and where that may not be read.
        uid: whose process it is, -1 where that cannot be told.
    """

    value: str
    uid: int


_NONE: Final = Word("", -1)


def inherited(process: Identity, name: str, proc: str = "/proc") -> Word:
    """The variable *name* of *process*, which has neither ended nor been followed by another before it was read.

    Blocking: a few small reads. Reading it takes the rights to trace the process (ptrace(2), PTRACE_MODE_READ_FSCREDS),
    as for its pid namespace. No error: of whom nothing can be read nothing is known.

    Args:
        process: whom to ask.
        name: of the variable.
        proc: where proc(5) is mounted.
    """
    try:
        if identify(process.pid, proc) != process:
            return _NONE
        with open(f"{proc}/{process.pid}/environ", "rb") as file:  # noqa: PTH123  # as in identify
            uid, text = os.fstat(file.fileno()).st_uid, file.read(_LONGEST)
        # Between two reads the number may have become another process's.
        if identify(process.pid, proc) != process:
            return _NONE
    except OSError:
        return _NONE  # it has ended, is another user's, or /proc hides it
    return Word(_value(text, os.fsencode(f"{name}=")), uid)


def _value(text: bytes, begin: bytes) -> str:
    # What comes after the last NUL is empty, or was cut short.
    found = (each for each in text.split(b"\0")[:-1] if each.startswith(begin))
    return os.fsdecode(next(found, begin)[len(begin) :])
