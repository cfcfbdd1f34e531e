"""What vectors in the place of text save: prompt tokens, time to first token and memory of SARA's generator.

    python -m benchmarks.mixed_prompts --out benchmarks/results/sara/prompts.md

Ten chunks of 256 tokens of a made-up report stand behind each question: k of them as text and the others as vectors,
or k of them as text and the others not at all. Each is held against all ten as text, in one process and in turn, so
that a machine which slows down slows all. Time to first token is that of a reply of one token. Memory is what the
process takes at its peak above the loaded model, prompts from the shortest to the longest, since what one took is
kept for the next; the keys and values of the prompt's tokens follow from the model's sizes.
Needs Linux, where a process's peak can be set back.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig

from okralong.lab.training.sara.examples import chunk_texts
from okralong.pipelines.core.types import Passage
from okralong.pipelines.models.weights import EMBEDDED, available_cores
from okralong.pipelines.samples.questions import generate
from okralong.pipelines.sara.artifact import ArrayCompressor, SaraConfig, generator_folder
from okralong.pipelines.sara.generator import MixedGenerator
from okralong.pipelines.sara.prompts import Asked, Vectors, answer_prompt

CHUNKS: Final = 10
TOKENS: Final = 256
AS_TEXT: Final = (10, 5, 2, 1, 0)
WINDOW: Final = 8192


@dataclass
class Prompt:
    """One way to show ``CHUNKS`` chunks, and what was measured of it."""

    name: str
    asked: Asked
    tokens: int = 0
    seconds: list[float] = field(default_factory=list)
    peak_mib: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--compressor", default="shipped", help="shipped, or a folder of `okralong train-sara`")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    said = parser.parse_args()
    folder = SaraConfig(compressor=said.compressor).folder()
    generator = MixedGenerator.load(folder, EMBEDDED, WINDOW, threads=available_cores())
    prompts = _prompts(folder)
    loaded = _resident_mib("VmRSS")
    _peaks(generator, prompts, loaded)
    for _ in range(said.rounds):
        for each in prompts:
            each.seconds.append(_answer(generator, each))
    text = _page(prompts, said.rounds, _cache_mib_a_token(folder))
    print(text)
    if said.out:
        said.out.parent.mkdir(parents=True, exist_ok=True)
        said.out.write_text(text)


def _prompts(folder: Path) -> list[Prompt]:
    sample = generate(reports=1, questions=1, seed=5, words=4_000)
    document = sample.documents[0]
    chunks = chunk_texts(document.doc_id, document.text, TOKENS)[:CHUNKS]
    if len(chunks) < CHUNKS:
        raise SystemExit(f"The made-up report has {len(chunks)} chunks; {CHUNKS} are wanted.")
    # Which vectors they are changes no time: a unit vector stands for each chunk's sentence embedding.
    compressor = ArrayCompressor.load(folder)
    vectors = [Vectors(each) for each in compressor(torch.eye(compressor.shape.inputs)[:CHUNKS].numpy())]

    def prompt(count: int, rest: bool) -> Asked:
        shown = [Passage("report", 0, len(chunk), chunk, 0, 0.0) for chunk in chunks[:count]]
        return Asked(tuple(answer_prompt(sample.questions[0].question, shown, vectors[count:] if rest else [])), 1)

    mixed = [Prompt(f"{count} as text, {CHUNKS - count} as vectors", prompt(count, True)) for count in AS_TEXT]
    return mixed + [Prompt(f"{count} as text, the rest left out", prompt(count, False)) for count in AS_TEXT[1:-1]]


def _peaks(generator: MixedGenerator, prompts: Sequence[Prompt], loaded: float) -> None:
    for each in sorted(prompts, key=lambda prompt: len(str(prompt.asked.messages))):
        Path("/proc/self/clear_refs").write_text("5")  # sets the peak back to what is resident now
        _answer(generator, each)
        each.peak_mib = _resident_mib("VmHWM") - loaded


def _answer(generator: MixedGenerator, prompt: Prompt) -> float:
    started = time.perf_counter()
    (written,) = generator.answer([prompt.asked])
    spent = time.perf_counter() - started
    if isinstance(written, Exception):
        raise SystemExit(f"{prompt.name}: {written}")
    prompt.tokens = written.prompt_tokens
    return spent


def _resident_mib(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024


def _cache_mib_a_token(folder: Path) -> float:
    """The keys and values of one token in float32, in MiB."""
    config: Any = AutoConfig.from_pretrained(generator_folder(folder, EMBEDDED))
    width = config.hidden_size // config.num_attention_heads
    return 2 * 4 * int(config.num_hidden_layers) * int(config.num_key_value_heads) * int(width) / 2**20


def _page(prompts: Sequence[Prompt], rounds: int, cache_mib: float) -> str:
    whole = prompts[0]
    lines = []
    for each in prompts:
        ratios = sorted(mine / its for mine, its in zip(each.seconds, whole.seconds, strict=True))
        lines.append(
            f"| {each.name} | {each.tokens:,} | {each.tokens / whole.tokens:.2f} | {statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}) | {each.tokens * cache_mib:.1f} | "
            f"{each.peak_mib:,.0f} |"
        )
    return (
        f"# Prompts of text and vectors\n\n`python -m benchmarks.mixed_prompts`, {rounds} rounds, {os.cpu_count()} "
        f"cores, chunks of {TOKENS} tokens. Ratios are to {whole.name}, of the same round: median (least to most). "
        f"All ten as text took {statistics.median(whole.seconds):.2f} s here.\n\n"
        "| prompt | tokens | ratio | time to first token, ratio | keys and values, MiB | peak above the model, MiB |\n"
        "|---|---|---|---|---|---|\n" + "\n".join(lines) + "\n"
    )


if __name__ == "__main__":
    main()
