"""Safe points for Hugging Face's Trainer: one after every step.

from jupyter_gpushare.training.transformers import safe_points

trainer = Trainer(..., callbacks=[safe_points()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(output_dir))

A job that is parked loses nothing; one that has to stop goes on from the Trainer's own checkpoint.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from jupyter_gpushare.training.job import safe_point, wanted

__all__ = ["Steps", "safe_points"]


class Steps:
    """What the callback does, whatever class of the framework it is mixed into.

    A job that is parked stands still right after the step. One that has to stop has the trainer save first, which that
    does between the end of the step and `on_save`.
    """

    def on_step_end(self, _arguments: Any, _state: Any, control: Any, **_more: Any) -> Any:
        """Between two steps nothing needs the GPU."""
        if wanted() == "stop":
            control.should_save = True
        else:
            safe_point()
        return control

    def on_save(self, _arguments: Any, _state: Any, control: Any, **_more: Any) -> Any:
        """The checkpoint is written: the job may stop here."""
        safe_point()
        return control


def safe_points() -> Any:
    """The callback for ``Trainer(callbacks=[…])``; see `Steps`.

    Raises:
        ImportError: Transformers is not installed.
    """
    callback: Any = import_module("transformers").TrainerCallback
    return type("GpuShareSafePoints", (Steps, callback), {})()
