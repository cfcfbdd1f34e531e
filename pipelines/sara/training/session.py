"""Training and figures as the command runs them: a config and a data folder in, a folder out. Runs without Ray."""

from __future__ import annotations

from pathlib import Path

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.evaluation.evidence.encoder import cached_encoder
from okralong.pipelines.sara.artifact import LORA
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.training.card import write_card
from okralong.pipelines.sara.training.config import InstructionConfig, SaraConfig
from okralong.pipelines.sara.training.data import (
    Encode,
    Material,
    alignment_examples,
    read_sets,
    reconstruction_examples,
)
from okralong.pipelines.sara.training.figures import answer_figures, reconstruction_figures, write_figures
from okralong.pipelines.sara.training.learner import SaraLearner
from okralong.pipelines.sara.training.measure import Compared
from okralong.pipelines.sara.training.stage_folder import DONE, TRAINED, is_trained_by
from okralong.pipelines.sara.training.stages import Generator, train_stages
from okralong.pipelines.training.say import Say, quiet

UNTRAINED = "untrained"
"""The name of the compressor before its first stage, in figures."""


def train_sara(config: SaraConfig, data: Path | None, work: Path, out: Path, say: Say = quiet) -> None:
    """Train by ``config`` and write everything to ``out``; embeddings are kept below ``work``."""
    encoder = cached_encoder(work, config.encoder)
    train, held = Material(read_sets(config, data, "train")), Material(read_sets(config, data, "validation"))
    train_stages(config, train, held, encoder.encode, out, say)
    write_card(out, config)


def report_sara(config: SaraConfig, data: Path | None, work: Path, out: Path, say: Say = quiet) -> list[Path]:
    """Measure what ``train_sara`` wrote to ``out`` on the side test, and write the figures there.

    Raises ConfigError where a stage of the config has not been trained.
    """
    missing = [name for name, _ in config.stages() if not (out / name / DONE).is_file()]
    if missing:
        raise ConfigError(f"{out} holds no finished stage {missing[0]}. Train it first: the same command, no --report.")
    if not is_trained_by(out, config):
        raise ConfigError(
            f"{out} was trained by another config than this one (its {TRAINED} has it), and only figures may differ. "
            "Give that one, or train by this one first: the same command, no --report."
        )
    encoder, test = cached_encoder(work, config.encoder), Material(read_sets(config, data, "test"))
    generator = Generator.load(config.model)
    parts: dict[str, dict[str, Compared]] = {}
    if config.compression:
        inputs = int(encoder.encode(["size"]).shape[1])
        compressors = {UNTRAINED: generator.new_compressor(config, inputs)}
        for name, trained in config.stages():
            if not isinstance(trained, InstructionConfig):
                compressors[name] = Compressor.load(out / name).to(generator.device)
        documents = test.documents(config.chunk_tokens)
        some = {"alignment": alignment_examples(documents, encoder.encode, config.figures.examples, config.seed)}
        replies = {"alignment": config.alignment.reply_tokens}
        if (stage := config.reconstruction) is not None:
            count = config.figures.examples // 2
            some["reconstruction"] = reconstruction_examples(
                documents, encoder.encode, count, stage.chunks, config.seed
            )
            replies["reconstruction"] = stage.reply_tokens
        for task, examples in some.items():
            learners = {
                name: SaraLearner(generator.model, generator.tokenizer, each, config.model, replies[task])
                for name, each in compressors.items()
            }
            found = reconstruction_figures(learners, {task: examples}, config, say)
            parts[f"The text of {task}, by what was learned"] = {name: each[task] for name, each in found.items()}
    parts |= _answers(config, generator, test, encoder.encode, out, say)
    return write_figures(out, parts, _about(config))


def _answers(
    config: SaraConfig, generator: Generator, test: Material, encode: Encode, out: Path, say: Say
) -> dict[str, dict[str, Compared]]:
    stage = config.instruction
    if stage is None:
        return {}
    compressor = Compressor.load(out).to(generator.device)  # one that knows nothing where nothing is compressed
    asked = test.asked(stage, config)
    if not asked:
        return {}
    rows: dict[str, Compared] = {}
    for tuned in (False, True) if stage.learned and config.compression else (stage.learned,):
        before = stage.learned and not tuned
        # In this order: the adapter changes the model itself.
        asks = generator.adapted(stage, config, out / LORA) if tuned else generator
        learner = SaraLearner(asks.model, asks.tokenizer, compressor, config.model, stage.reply_tokens)
        found = answer_figures(learner, asked, encode, config, compressor, say, alone=before)
        rows |= {f"{name}{', before tuning' if before else ''}": each for name, each in found.items()}
    return {f"The gold answer, by how many of {stage.retrieved} retrieved chunks stand as text": rows}


def _about(config: SaraConfig) -> str:
    sets = ", ".join(f"{each.name} {each.part}" for each in config.texts.sets) or "made-up reports"
    return (
        f"Made by `okralong train-sara CONFIG --report` on the side test of {sets}. Mean negative log-likelihood of a "
        f"reply's tokens in nats, over examples; {_cuts(config)}. Shuffled: the vectors of other documents' chunks. "
        "None: the same prompt without vectors, a form that the generator was not trained on, so what vectors tell is "
        "true less shuffled. Differences are paired; 95 % intervals, drawn by document. Questions are those whose "
        "answer stands in the chunks that BM25 finds, or is yes or no."
    )


def _cuts(config: SaraConfig) -> str:
    said = ", ".join(f"{stage.reply_tokens} in {name}" for name, stage in config.stages())
    return f"of a reply at most its first tokens count: {said}"
