"""An analyzer that asks a causal language model how likely each allowed label is, instead of letting it write.

A reply of the wrong form cannot happen, the probabilities come for free, and a batch costs one pass over what differs
between its prompts (the instructions are read once, when the model is loaded) with the first field's labels behind it,
plus one short pass for each of the other two fields. Runs without Ray.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.answering.analysis import AnalysisInput, best, make_analysis
from okralong.pipelines.answering.analyzers.batches import by_length
from okralong.pipelines.answering.analyzers.calibration import UNCALIBRATED, Temperatures, read_temperatures
from okralong.pipelines.answering.analyzers.opening import Opening
from okralong.pipelines.answering.analyzers.scaffold import Field, Ids, opening_ids, prompt_ids, reply_fields
from okralong.pipelines.answering.analyzers.tree_pass import Prefix
from okralong.pipelines.core.types import Analysis, ConfigError
from okralong.pipelines.models.loading import settle

REPLY_TOKENS = 96
"""Positions kept free for the reply; ours, about three times what the longest takes in the vocabularies we saw."""


class LabelScorer:
    """A causal language model that scores labels. Make one with ``load``. Not safe for use by two threads at once."""

    def __init__(
        self, model: Any, tokenizer: Any, name: str, max_batch: int, temperatures: Temperatures = UNCALIBRATED
    ) -> None:
        self.name = name
        self._temperatures = temperatures
        self.max_batch = max_batch
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._fields = reply_fields(tokenizer)
        self._limit = int(model.config.max_position_embeddings) - REPLY_TOKENS
        with torch.inference_mode():
            self._opening = Opening.read(self._model, opening_ids(tokenizer))

    @classmethod
    def load(
        cls,
        model: str,
        adapter: str | None = None,
        max_batch: int = 16,
        precision: str = "auto",
        device: str = "auto",
        label: str | None = None,
        threads: int | None = None,
    ) -> LabelScorer:
        """Load ``model`` (folder or hub name) and merge the LoRA ``adapter`` into it, if one is given.

        An adapter's folder may hold the temperatures that its training measured (``calibration.json``).
        ``precision`` "auto" follows the processor; ``label`` is how the model is called in ``Analysis.analyzer``;
        ``threads`` are torch's CPU threads for the whole process, None leaves them as they are.
        Only safetensors are read. Raises ConfigError when model or adapter cannot be loaded.
        """
        target, dtype = settle(device, precision, threads)
        try:
            tokenizer = AutoTokenizer.from_pretrained(model)
            # An adapter is merged in float32: in bfloat16 its small steps would be rounded away.
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                model, dtype=torch.float32 if adapter else dtype, use_safetensors=True
            )
            if adapter is not None:
                from peft import PeftModel

                loaded = PeftModel.from_pretrained(loaded, adapter, use_safetensors=True).merge_and_unload()
        except (OSError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"The analyzer's model {model!r} with adapter {adapter!r} cannot be loaded: {error}. Give folders that "
                "hold safetensors, or hub names that this machine can reach, or set analyzer.kind to rules."
            ) from error
        name = f"label-scorer:{label or Path(model).name}"
        temperatures = UNCALIBRATED if adapter is None else read_temperatures(Path(adapter))
        return cls(loaded.to(device=target, dtype=dtype), tokenizer, name, max_batch, temperatures)

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """One analysis for each input, in their order. Prompts of like length share a pass."""
        prompts = [prompt_ids(self._tokenizer, asked, self._limit) for asked in batch]
        return by_length(prompts, len, self.max_batch, self._analyze_part)

    def _analyze_part(self, prompts: list[Ids]) -> list[Analysis]:
        scored: list[list[dict[str, float]]] = [[] for _ in prompts]
        with torch.inference_mode():
            # A prompt that was cut to the model's window may lack its beginning.
            opening = self._opening if self._opening.opens(prompts) else None
            prefix = Prefix(self._model, len(prompts), opening)
            following = [ids[len(opening.ids) :] for ids in prompts] if opening else prompts
            for field, temperature in zip(self._fields, self._temperatures, strict=True):
                rows = [ids + field.scaffold for ids in following]
                following = []
                for row, scores in zip(scored, _probabilities(prefix, rows, field, temperature), strict=True):
                    row.append(scores)
                    # Later fields are judged in the light of the label that was chosen here.
                    following.append(field.labels[best(scores)])
        return [make_analysis(types, patterns, evidence, self.name) for types, patterns, evidence in scored]


def _probabilities(prefix: Prefix, rows: list[Ids], field: Field, temperature: float) -> list[dict[str, float]]:
    likelihoods = prefix.extend(rows, list(field.labels.values()))
    scaled = torch.softmax(likelihoods.double() / temperature, dim=1).tolist()
    return [dict(zip(field.labels, row, strict=True)) for row in scaled]
