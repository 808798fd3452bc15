"""Where one user's notebook servers and jobs on one host write down what they are parking.

One that starts later cleans up after one that died, whichever of the two it was.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["state_directory"]


def state_directory(configured: str = "") -> Path:
    """The directory of this user alone; made if need be.

    Args:
        configured: another place than the usual one.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    path = Path(configured) if configured else Path(tempfile.gettempdir()) / f"gpushare-{os.getuid()}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_symlink() or path.stat().st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to somebody else: remove it, or give another directory for the state")
    return path
