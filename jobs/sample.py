"""``okralong sample``: write made-up annual reports and questions about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def command(
    folder: Annotated[Path, typer.Argument(help="Where the reports and questions.jsonl go.")],
    reports: Annotated[int, typer.Option(min=1, help="How many annual reports.")] = 6,
    questions: Annotated[int, typer.Option(min=0, help="How many questions.")] = 20,
    words: Annotated[int, typer.Option(min=1_500, help="Words in a report, about.")] = 18_000,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 7,
) -> None:
    """Write a sample archive: fictional annual reports and questions of all types, with gold answers."""
    from okralong.pipelines.samples.questions import generate, write_sample

    sample = generate(reports=reports, questions=questions, seed=seed, words=words)
    write_sample(sample, folder)
    total = sum(len(document.text.split()) for document in sample.documents)
    Console().print(
        f"{folder}: {len(sample.documents)} reports ({total:,} words), {len(sample.questions)} questions "
        f"in {folder / 'questions.jsonl'}"
    )
