"""Measure a trained SARA on the test side: the likelihood of replies with true, shuffled or no vectors.

It measures reconstruction after each stage, then gold answers by the number of chunks shown as text. Figures are means
with intervals over documents.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from okralong.lab.evidence.report_files import estimate_words, write_markdown_report
from okralong.lab.training.learners.fit import Say, quiet
from okralong.lab.training.sara.config import InstructionConfig, SaraConfig, StageConfig
from okralong.lab.training.sara.examples import (
    Asked,
    Embeddings,
    Material,
    MixedExample,
    alignment_examples,
    instruction_examples,
    reconstruction_examples,
)
from okralong.lab.training.sara.train import DONE, TRAINED, Generator, SaraLearner, choosing, encode_for, is_trained_by
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.reporting.metrics import best, token_f1
from okralong.pipelines.reporting.statistics import Estimate, estimate, resample
from okralong.pipelines.reporting.tables import NONE, markdown_table
from okralong.pipelines.sara.artifact import LORA, Encode
from okralong.pipelines.sara.compressor import AnyCompressor, load_compressor

Floats = NDArray[np.float64]

Condition = Literal["true", "shuffled", "none"]
CONDITIONS: Final[tuple[Condition, ...]] = ("true", "shuffled", "none")
"""The conditions: examples with their own vectors, with as many vectors of other documents, or without vectors."""

UNTRAINED = "untrained"
"""The name, in the report, of the compressor before its first stage."""


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """For each example, the mean negative log-likelihood of the reply's tokens (nats), and the share of right ones.

    Also its prompt's number of tokens, vectors included, and of vectors.
    """

    nll: Floats
    accuracy: Floats
    documents: tuple[str, ...]
    prompt_tokens: Floats
    vectors: Floats


@dataclass(frozen=True, slots=True)
class Compared:
    """Means over examples, and paired differences: true vectors minus another condition, below 0 if true ones win.

    ``less_before`` is the difference from true vectors of the compressor as it was one stage earlier. ``f1`` is the F1
    of replies that were generated from true vectors, for the first ``replies`` examples. ``prompt_tokens`` and the
    ``vectors`` among them are means of prompts with true vectors.
    """

    examples: int
    documents: int
    nll: dict[Condition, Estimate]
    accuracy: dict[Condition, Estimate]
    less_shuffled: Estimate
    less_none: Estimate
    prompt_tokens: float
    vectors: float
    less_before: Estimate | None = None
    replies: int = 0
    f1: Estimate | None = None


def report_sara(config: SaraConfig, data: Path | None, work: Path, out: Path, say: Say = quiet) -> list[Path]:
    """Measure, on the test side, what ``train_sara`` wrote to ``out``, and write the figures to it.

    Raises ConfigError if a stage of the config has not been trained.
    """
    missing = [name for name, _ in config.stages() if not (out / name / DONE).is_file()]
    if missing:
        raise ConfigError(f"{out} holds no finished stage {missing[0]}. Train it first: the same command, no --report.")
    if not is_trained_by(out, config):
        raise ConfigError(
            f"{out} was trained by another config than this one (its {TRAINED} has it), and only figures may differ. "
            "Give that one, or train by this one first: the same command, no --report."
        )
    encode, test = encode_for(config, work), Material.read(config, data, "test")
    generator = Generator.load(config.model, config.precision)
    parts: dict[str, dict[str, Compared]] = {}
    if config.compression:
        inputs = int(encode(["size"]).shape[1])
        compressors = {UNTRAINED: generator.new_compressor(config, inputs)}
        for name, trained in config.stages():
            if not isinstance(trained, InstructionConfig) or trained.lora is None:
                compressors[name] = load_compressor(out / name, config.model, config.precision).to(generator.device)
        seed, count = config.seed, config.figures.examples
        tasks: list[tuple[StageConfig, str, list[MixedExample]]] = [
            (
                config.alignment,
                "alignment",
                alignment_examples(test.documents, encode, count, seed, sentences=config.sentences),
            )
        ]
        if (stage := config.reconstruction) is not None:
            runs = reconstruction_examples(test.documents, encode, count // 2, stage.chunks, seed, config.sentences)
            tasks.append((stage, "reconstruction", runs))
        for of, task, examples in tasks:
            if examples:
                learners = {name: generator.learner(each, of.reply_tokens) for name, each in compressors.items()}
                parts[f"The text of {task}, by what was learned"] = _by_stage(task, learners, examples, config, say)
    parts |= _answers(config, generator, test, encode, out, say)
    tables = [section for title, rows in parts.items() for section in (f"## {title}", table(rows))]
    about = _about(config)
    return write_markdown_report(
        out, "figures", ["# Figures of a trained SARA", about, *tables], {"about": about, **parts}
    )


def _answers(
    config: SaraConfig, generator: Generator, test: Material, encode: Encode, out: Path, say: Say
) -> dict[str, dict[str, Compared]]:
    stage = config.instruction
    if stage is None:
        return {}
    # It is untrained if nothing is compressed.
    compressor = load_compressor(out, config.model, config.precision).to(generator.device)
    asked = test.asked()
    if not asked:
        return {}
    rows: dict[str, Compared] = {}
    for tuned in (False, True) if stage.learned and config.compression else (stage.learned,):
        before = stage.learned and not tuned
        if stage.lora is None:  # this stage trained the compressor
            earlier = [name for name, each in config.stages() if not isinstance(each, InstructionConfig)]
            folder = out / earlier[-1] if before else out
            compressor = load_compressor(folder, config.model, config.precision).to(generator.device)
        # The order matters, because adding the adapter changes the model itself.
        asks = generator.adapted(stage, config, out / LORA) if tuned else generator
        found = answer_figures(
            asks.learner(compressor, stage.reply_tokens), asked, encode, config, compressor, say, alone=before
        )
        rows |= {f"{name}{', before tuning' if before else ''}": each for name, each in found.items()}
    return {f"The gold answer, by how many of {stage.retrieved} retrieved chunks stand as text": rows}


@torch.inference_mode()
def measured(learner: SaraLearner, examples: Sequence[MixedExample], batch_size: int) -> Measured:
    """Measure every example, in batches of similar length."""
    learner.eval()
    nll, accuracy, tokens, vectors = (np.zeros(len(examples)) for _ in range(4))
    for batch in _batches(examples, batch_size):
        rows = learner.rows([examples[number] for number in batch])
        tokens[batch], vectors[batch] = [each.usage for each in rows], [len(each.places) for each in rows]
        losses, right, row = learner.row_losses(rows)
        counts = torch.bincount(row, minlength=len(batch)).double().cpu()
        for values, found in ((losses.double(), nll), (right.double(), accuracy)):
            sums = torch.zeros(len(batch), dtype=torch.float64).index_add_(0, row.cpu(), values.cpu())
            found[batch] = (sums / counts).numpy()
    return Measured(nll, accuracy, tuple(each.document for each in examples), tokens, vectors)


def _batches(examples: Sequence[MixedExample], size: int) -> list[list[int]]:
    """Return the indexes of the examples, in batches of similar length."""
    order = sorted(range(len(examples)), key=lambda number: examples[number].length)
    return [order[start : start + size] for start in range(0, len(order), size)]


def compared(learner: SaraLearner, examples: Sequence[MixedExample], batch_size: int, seed: int) -> Compared:
    """Measure the examples under all three conditions, and compare the conditions."""
    return comparison(measured_under_all(learner, examples, batch_size, seed))


def measured_under_all(
    learner: SaraLearner, examples: Sequence[MixedExample], batch_size: int, seed: int
) -> dict[Condition, Measured]:
    """Measure the examples under all three conditions, which are the same if nothing is compressed."""
    if not any(len(each.embeddings) for each in examples):
        return dict.fromkeys(CONDITIONS, measured(learner, examples, batch_size))
    return {each: measured(learner, under(each, examples, seed), batch_size) for each in CONDITIONS}


def reply_f1(
    learner: SaraLearner, examples: Sequence[MixedExample], answers: Sequence[Sequence[str]], batch_size: int
) -> Estimate:
    """Return the mean token F1 of generated replies, each compared with its nearest gold wording."""
    learner.eval()
    found = np.zeros(len(examples))
    for batch in _batches(examples, batch_size):
        for number, reply in zip(batch, learner.write([examples[number] for number in batch]), strict=True):
            found[number] = best(token_f1, reply, answers[number])
    drawn = resample([each.document for each in examples])
    return estimate(float(found.mean()), None if drawn is None else drawn.means(found))


def comparison(found: dict[Condition, Measured], before: Measured | None = None) -> Compared:
    """Return means and paired differences of measurements on the same examples. ``before`` is of the stage before."""
    documents = found["true"].documents
    drawn = resample(documents)

    def mean(values: Floats) -> Estimate:
        return estimate(float(values.mean()), None if drawn is None else drawn.means(values))

    return Compared(
        len(documents),
        len(set(documents)),
        {name: mean(each.nll) for name, each in found.items()},
        {name: mean(each.accuracy) for name, each in found.items()},
        mean(found["true"].nll - found["shuffled"].nll),
        mean(found["true"].nll - found["none"].nll),
        float(found["true"].prompt_tokens.mean()),
        float(found["true"].vectors.mean()),
        None if before is None else mean(found["true"].nll - before.nll),
    )


def _by_stage(
    task: str, learners: Mapping[str, SaraLearner], examples: Sequence[MixedExample], config: SaraConfig, say: Say
) -> dict[str, Compared]:
    """Measure the same examples after each stage, in order."""
    found: dict[str, Compared] = {}
    before: Measured | None = None
    for name, learner in learners.items():
        seen = measured_under_all(learner, examples, config.figures.batch_size, config.seed)
        found[name] = comparison(seen, before)
        before = seen["true"]
        say(f"{name}, {task}: true less shuffled {shown(found[name].less_shuffled)}")
    return found


def answer_figures(
    learner: SaraLearner,
    asked: Sequence[Asked],
    encode: Encode,
    config: SaraConfig,
    compressor: AnyCompressor,
    say: Say,
    alone: bool = False,
) -> dict[str, Compared]:
    """Measure the likelihood of gold answers by the number of chunks shown as text.

    All rows are for the same first questions of ``asked``, except that a second row with only vectors has more
    questions. With ``alone``, only prompts with only vectors are measured and no reply is generated; this is for a
    generator that never learned to read vectors. The likelihood is that of the first wording of an answer.
    """
    sizes, found = config.figures, {}
    chosen_by = choosing(compressor, config)
    for count in sizes.as_text:
        if count and alone:
            continue
        more = [] if count or sizes.questions_without_text <= sizes.questions else [sizes.questions_without_text]
        for number in (sizes.questions, *more):
            wanted = asked[:number]
            name = f"{count} as text" if number == sizes.questions else f"{count} as text, {len(wanted)} questions"
            examples = instruction_examples(
                wanted, encode, [count] * len(wanted), chosen_by, config.compression, config.sentences
            )
            row = compared(learner, examples, sizes.batch_size, config.seed)
            if not alone and sizes.replies and number == sizes.questions:
                answers = [each.answers for each in wanted[: sizes.replies]]
                f1 = reply_f1(learner, examples[: sizes.replies], answers, sizes.batch_size)
                row = replace(row, replies=len(answers), f1=f1)
            say(f"{name}: true less shuffled {shown(row.less_shuffled)}")
            found[name] = row
    return found


def table(rows: Mapping[str, Compared]) -> str:
    """Return a table with a line per row: nats per token, 95 % intervals over documents, paired differences."""
    staged = any(each.less_before is not None for each in rows.values())
    answered = any(each.f1 is not None for each in rows.values())
    head = [
        "",
        "examples (documents)",
        "prompt tokens (vectors)",
        "true",
        "shuffled",
        "none",
        "true - shuffled",
        "true - none",
    ]
    head += ["true - a stage earlier"] if staged else []
    head += ["foretold: true", "shuffled", "none"]
    head += ["F1 (replies)"] if answered else []
    lines = []
    for name, each in rows.items():
        line = [name, f"{each.examples:,} ({each.documents:,})", f"{each.prompt_tokens:.1f} ({each.vectors:.1f})"]
        line += [NONE if mean.value is None else f"{mean.value:.3f}" for mean in each.nll.values()]
        line += [shown(each.less_shuffled), shown(each.less_none), *([shown(each.less_before)] if staged else [])]
        line += [NONE if mean.value is None else f"{mean.value:.1%}" for mean in each.accuracy.values()]
        line += [f"{estimate_words(each.f1)} ({each.replies})" if each.f1 else NONE] if answered else []
        lines.append(line)
    return markdown_table(head, lines)


def shown(each: Estimate | None) -> str:
    """Format a difference with its interval."""
    return estimate_words(each, "+.3f") if each and each.low is not None and each.high is not None else NONE


def under(condition: Condition, examples: Sequence[MixedExample], seed: int) -> list[MixedExample]:
    """Return the examples with their own vectors, with as many vectors of other documents, or without vectors.

    The same seed gives the same vectors. Raises ValueError if all examples are of one document.
    """
    if condition == "true":
        return list(examples)
    if condition == "none":
        return [replace(each, compressed=(), embeddings=each.embeddings[:0], counts=None) for each in examples]
    pool = [(each.document, pair) for each in examples for pair in _units(each)]
    random_ = random.Random(seed)
    found = []
    for each in examples:
        others = [pair for document, pair in pool if document != each.document]
        if each.compressed and not others:
            raise ValueError("Vectors can be shuffled over documents only where there are two documents.")
        drawn = [random_.choice(others) for _ in each.embeddings]
        vectors = np.stack([vector for _, vector in drawn]) if drawn else each.embeddings
        texts = each.compressed if each.counts else tuple(text for text, _ in drawn)
        found.append(replace(each, compressed=texts, embeddings=vectors))
    return found


def _units(example: MixedExample) -> list[tuple[str, Embeddings]]:
    """Return the embeddings of an example, each with the compressed text that it is of."""
    texts = [text for text, size in zip(example.compressed, example.sizes, strict=True) for _ in range(size)]
    return list(zip(texts, example.embeddings, strict=True))


def _about(config: SaraConfig) -> str:
    sets = ", ".join(f"{each.name} {each.part}" for each in config.texts.sets) or "made-up reports"
    return (
        f"Made by `okralong train-sara CONFIG --report` on the side test of {sets}. Mean negative log-likelihood of a "
        f"reply's tokens in nats, over examples; {_cuts(config)}. Shuffled: the vectors of other documents' "
        f"{config.unit}s. "
        "None: the same prompt without vectors, a form that the generator was not trained on, so what vectors tell is "
        "true less shuffled. Differences are paired; 95 % intervals, drawn by document. Questions are those whose "
        "answer stands in the chunks that BM25 finds, or is yes or no."
    )


def _cuts(config: SaraConfig) -> str:
    said = ", ".join(f"{stage.reply_tokens} in {name}" for name, stage in config.stages())
    return f"of a reply at most its first tokens count: {said}"
