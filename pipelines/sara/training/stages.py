"""A whole training of SARA, stage after stage. A killed one goes on: finished stages stand, others have checkpoints."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.models.loading import settle
from okralong.pipelines.models.weights import EMBEDDED, available_cores, causal_model, resolve_embedding_model
from okralong.pipelines.sara.artifact import DESCRIPTION, LORA, WEIGHTS, Shape
from okralong.pipelines.sara.compressor import Compressor, token_scale
from okralong.pipelines.sara.training.config import InstructionConfig, ReconstructionConfig, SaraConfig, StageConfig
from okralong.pipelines.sara.training.curriculum import from_plain_to_rich
from okralong.pipelines.sara.training.data import Encode, Material, alignment_examples, reconstruction_examples
from okralong.pipelines.sara.training.examples import MixedExample
from okralong.pipelines.sara.training.instruction import dealt, instruction_examples
from okralong.pipelines.sara.training.learner import SaraLearner
from okralong.pipelines.sara.training.stage_folder import begin_stage, end_stage, is_done, say_trained
from okralong.pipelines.sara.training.stage_names import Stage
from okralong.pipelines.training.adapter import begin_with, with_adapter
from okralong.pipelines.training.fit import CHECKPOINTS, HISTORY, fit
from okralong.pipelines.training.say import Say

COUNTS: Final = "counts.json"
"""Beside a stage's history: how many examples it was made from, of how many documents."""


@dataclass(frozen=True)
class Generator:
    """The frozen language model of a training, where it runs, and what a config calls it."""

    model: Any
    tokenizer: Any
    name: str
    device: str

    @classmethod
    def load(cls, name: str) -> Generator:
        """In bfloat16 on a GPU, else in what the processor is fast in. Raises ConfigError as ``causal_model`` does."""
        # Ray gives a task one thread unless told otherwise.
        device, dtype = settle("auto", "auto", available_cores())
        path = causal_model(name)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=dtype, use_safetensors=True)
        return cls(model.to(device).requires_grad_(False), AutoTokenizer.from_pretrained(path), name, device)

    def new_compressor(self, config: SaraConfig, inputs: int) -> Compressor:
        """An untrained compressor for it; the same seed gives the same."""
        encoder = resolve_embedding_model(config.encoder)
        embedding = self.model.get_input_embeddings().weight
        shape = Shape(
            inputs=inputs,
            width=config.width,
            hidden=int(embedding.shape[1]),
            vectors_per_chunk=config.vectors_per_chunk,
            encoder=EMBEDDED if config.encoder == EMBEDDED else encoder.name,
            encoder_sha256=encoder.sha256,
            generator=Path(config.model).name,  # a folder's path says more of a machine than of a model
            chunk_tokens=config.chunk_tokens,
        )
        torch.manual_seed(config.seed)
        return Compressor(shape, token_scale(embedding)).to(self.device)

    def adapted(self, stage: InstructionConfig, config: SaraConfig, start: Path | None = None) -> Generator:
        """The same with an adapter to learn, a new one or that of the folder ``start``. The model itself is changed."""
        lora = config.recipe(stage).lora
        assert lora is not None
        torch.manual_seed(config.seed)
        adapted = with_adapter(self.model, lora, task="CAUSAL_LM")
        if start is not None:
            begin_with(adapted, start)
        return Generator(adapted, self.tokenizer, self.name, self.device)


def train_stages(config: SaraConfig, train: Material, held: Material, encode: Encode, out: Path, say: Say) -> None:
    """Train all stages of ``config`` on ``train``, watched on ``held``, and write the result to ``out``.

    ``out`` then holds the compressor, the adapter below ``lora``, and a folder for each stage. Raises ConfigError when
    a model cannot be found, InputError when there is nothing to learn from.
    """
    generator = Generator.load(config.model)
    inputs = int(encode(["size"]).shape[1])
    compressor = generator.new_compressor(config, inputs)
    for name, stage in config.stages():
        folder = out / name
        learned, watched = (
            stage_examples(name, stage, config, material, encode, compressor, count)
            for material, count in ((train, stage.examples), (held, stage.validation))
        )
        say(f"{name}: {len(learned):,} examples, {len(watched):,} held out")
        made_from = _digest(config, name, stage, compressor, (*learned, *watched))
        if not is_done(folder, made_from):
            begin_stage(folder, made_from)
            in_order = name == "alignment" and config.curriculum
            on = generator.adapted(stage, config) if isinstance(stage, InstructionConfig) else generator
            learner = SaraLearner(on.model, on.tokenizer, compressor, config.model, stage.reply_tokens, in_order)
            recipe = config.recipe(stage)
            fit(learner.to(generator.device), recipe, learned, watched, folder, generator.device, say)
            counts = {
                "train": len(learned),
                "documents": len({e.document for e in learned}),
                "validation": len(watched),
            }
            (folder / COUNTS).write_text(json.dumps(counts) + "\n", encoding="utf-8")
            end_stage(folder, made_from)
            shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
        say(f"{name}: {_last_evaluation(folder)}")
        # From the files, as an interrupted training does: float16 rounds.
        compressor = Compressor.load(folder).to(generator.device)
    _gather(out, config)


def stage_examples(
    name: Stage,
    stage: StageConfig,
    config: SaraConfig,
    material: Material,
    encode: Encode,
    compressor: Compressor,
    count: int,
) -> list[MixedExample]:
    """At most ``count`` examples of a stage, in the order in which they are learned."""
    if isinstance(stage, InstructionConfig):
        chosen_by = compressor if config.reranking and config.compression else None
        asked, as_text = dealt(material.asked(stage, config), stage.as_text, count)
        return instruction_examples(asked, encode, as_text, chosen_by, config.compression)
    documents = material.documents(config.chunk_tokens)
    if isinstance(stage, ReconstructionConfig):
        return reconstruction_examples(documents, encode, count, stage.chunks, config.seed)
    found = alignment_examples(documents, encode, count, config.seed)
    return from_plain_to_rich(found) if config.curriculum else found


def _digest(
    config: SaraConfig, name: Stage, stage: StageConfig, compressor: Compressor, examples: Sequence[MixedExample]
) -> str:
    said = f"{name} {config.model} {stage.model_dump_json()} {config.seed} {config.curriculum}"
    digest = hashlib.sha256(said.encode())
    digest.update(f"{compressor.shape} {compressor.fingerprint}".encode())
    for each in examples:
        digest.update(repr(each).encode())
    return digest.hexdigest()


def _last_evaluation(folder: Path) -> str:
    history = json.loads((folder / HISTORY).read_text(encoding="utf-8"))["history"]
    losses = [entry["eval_loss"] for entry in history if "eval_loss" in entry]
    return "no evaluation" if not losses else f"loss on validation {losses[0]:.3f} first, {min(losses):.3f} at best"


def _gather(out: Path, config: SaraConfig) -> None:
    """The result of the last stage, at the top of ``out``."""
    last, stage = config.stages()[-1]
    for file in (WEIGHTS, DESCRIPTION):
        shutil.copyfile(out / last / file, out / file)
    if isinstance(stage, InstructionConfig):
        shutil.rmtree(out / LORA, ignore_errors=True)
        shutil.copytree(out / last / LORA, out / LORA)
    say_trained(out, config)
