"""The card of a trained SARA, and the course of its training as one picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from okralong.pipelines.sara.artifact import read_shape
from okralong.pipelines.sara.training.config import InstructionConfig, SaraConfig
from okralong.pipelines.sara.training.stages import COUNTS
from okralong.pipelines.training.curves import draw_curves
from okralong.pipelines.training.fit import HISTORY
from okralong.pipelines.training.model_card import learned_words
from okralong.pipelines.training.session import CARD, CURVES


def write_card(out: Path, config: SaraConfig) -> None:
    """Write card, history and curves of the stages below ``out``."""
    histories: dict[str, list[dict[str, float]]] = {}
    for name, _ in config.stages():
        histories[name] = _history(out / name / HISTORY)
    (out / HISTORY).write_text(json.dumps(histories, indent=1) + "\n", encoding="utf-8")
    draw_curves(histories, out / CURVES)
    (out / CARD).write_text(sara_card(out, config, histories), encoding="utf-8")


def sara_card(out: Path, config: SaraConfig, histories: Mapping[str, list[dict[str, float]]]) -> str:
    """The card as Markdown: what it is, what each stage learned from, what validation said."""
    shape, fingerprint = read_shape(out)
    base = "SmolLM2-135M-Instruct" if config.model == "embedded" else Path(config.model).name
    encoder = "all-MiniLM-L6-v2" if config.encoder == "embedded" else Path(config.encoder).name
    sets = [f"{each.name} {each.part}" for each in config.texts.sets]
    sets += ["made-up reports"] if config.texts.sample else []
    off = {
        "compression (SARA-C)": config.compression,
        "reconstruction (SARA-P)": config.reconstruction,
        "reranking (SARA-R)": config.reranking,
        "curriculum (SARA-L)": config.curriculum,
        "instruction tuning (SARA-I)": config.instruction and config.instruction.learned,
    }
    without = [name for name, on in off.items() if not on]
    sections = [
        "# A trained SARA of okralong",
        f"Made by `okralong train-sara`. A compressor ({shape.inputs} -> {shape.width} -> {shape.hidden} x "
        f"{shape.vectors_per_chunk}) from the sentence embeddings of {encoder} to the token embeddings of {base}, "
        f"fingerprint `{fingerprint}`, for chunks of at most {shape.chunk_tokens} tokens at sentences. Seed "
        f"{config.seed}. Texts and questions of the train side of the split: {', '.join(sets)}."
        + (f" Without {', '.join(without)}." if without else ""),
    ]
    for name, stage in config.stages():
        counted = json.loads((out / name / COUNTS).read_text(encoding="utf-8"))
        learned = "the compressor, below the frozen generator"
        if isinstance(stage, InstructionConfig):
            learned = f"{learned_words(config.recipe(stage))}, above the frozen compressor"
        evaluations = [entry for entry in histories[name] if "eval_loss" in entry]
        best = min(evaluations, key=lambda entry: entry["eval_loss"])
        epochs = "epoch" if stage.epochs == 1 else "epochs"
        sections.append(
            f"**{name.capitalize()}**: {learned}. {counted['train']:,} examples of {counted['documents']:,} documents, "
            f"{stage.epochs:g} {epochs}, batches of {stage.batch_size} x {stage.accumulation}, learning rate "
            f"{stage.learning_rate:g}; the first {stage.reply_tokens} tokens of a reply are learned. On "
            f"{counted['validation']:,} held-out examples: loss {evaluations[0]['eval_loss']:.3f} at the first "
            f"evaluation, {best['eval_loss']:.3f} at the best one, which was kept; "
            f"{best['eval_token_accuracy']:.1%} of the tokens foretold."
        )
    return "\n\n".join(sections) + "\n"


def _history(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["history"]
    return found
