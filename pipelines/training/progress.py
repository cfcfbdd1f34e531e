"""What a training tells while it runs: its evaluations, and about how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from okralong.pipelines.training.say import Say


class Progress(TrainerCallback):
    """Says a line at each evaluation."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._began, self._first = 0.0, 0

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """The clock starts; a training that goes on starts at the step of its checkpoint."""
        self._began, self._first = time.monotonic(), state.global_step

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: Mapping[str, float] | None = None,
        **_: Any,
    ) -> None:
        """What validation says after this step."""
        if metrics and "eval_loss" in metrics and state.global_step > self._first:
            each = (time.monotonic() - self._began) / (state.global_step - self._first)
            minutes = each * (state.max_steps - state.global_step) / 60
            self._say(
                f"step {state.global_step:,} of {state.max_steps:,}: loss on validation {metrics['eval_loss']:.3f}, "
                f"about {minutes:.0f} minutes left"
            )
