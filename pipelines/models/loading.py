"""What is settled before a model is loaded: where it runs, in which precision, with how many threads, and quietly."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from okralong.pipelines.models.precision import device as visible_device
from okralong.pipelines.models.precision import dtype_for


def settle(device: str, precision: str, threads: int | None) -> tuple[str, torch.dtype]:
    """The device and dtype that a model is to be loaded with; each may be "auto".

    ``threads`` become torch's CPU threads in this whole process; None leaves them as they are. transformers' progress
    bars are turned off, since they would stand in the way of the job's own. Raises ValueError for an unknown precision.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    messages: Any = transformers.utils.logging
    messages.disable_progress_bar()
    chosen = visible_device() if device == "auto" else device
    return chosen, dtype_for(chosen, precision)
