"""Safe points for PyTorch Lightning: one after every batch.

from jupyter_gpushare.training.lightning import safe_points

trainer = Trainer(callbacks=[safe_points(save="last.ckpt")])
trainer.fit(model, ckpt_path="last.ckpt" if Path("last.ckpt").exists() else None)

A job that is parked loses nothing; the checkpoint is for one that has to stop.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from jupyter_gpushare.training.job import on_reclaim, safe_point

__all__ = ["Steps", "safe_points"]

#: The package's name since version 2, and the one before it.
_PACKAGES: Final = ("lightning.pytorch", "pytorch_lightning")


class Steps:
    """What the callback does, whatever class of the framework it is mixed into.

    Args:
        save: the checkpoint that is written before the GPU is given back; none when empty, as the job is then parked,
            or goes on from what the trainer saves itself.
    """

    def __init__(self, save: str = "") -> None:
        super().__init__()
        self._save = save

    def on_fit_start(self, trainer: Any, _module: Any) -> None:
        """Save to the file whenever the GPU is to be given back."""
        if self._save:
            on_reclaim(lambda: trainer.save_checkpoint(self._save))

    def on_train_batch_end(self, *_arguments: Any, **_more: Any) -> None:
        """Between two batches nothing needs the GPU."""
        safe_point()


def safe_points(save: str = "") -> Any:
    """The callback for ``Trainer(callbacks=[…])``; see `Steps`.

    Raises:
        ImportError: PyTorch Lightning is not installed.
    """
    callback: Any = import_module(_package()).Callback
    return type("GpuShareSafePoints", (Steps, callback), {})(save)


def _package() -> str:
    """The package that is installed; the newer one where none is, for its own error."""
    return next((name for name in _PACKAGES if find_spec(name.partition(".")[0]) is not None), _PACKAGES[0])
