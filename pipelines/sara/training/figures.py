"""The figures of a trained SARA on the side test: reconstruction by stage, and gold answers by chunks shown as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.training.config import SaraConfig
from okralong.pipelines.sara.training.data import Asked, Encode
from okralong.pipelines.sara.training.examples import MixedExample
from okralong.pipelines.sara.training.instruction import instruction_examples
from okralong.pipelines.sara.training.learner import SaraLearner
from okralong.pipelines.sara.training.measure import (
    Compared,
    Measured,
    compared,
    comparison,
    measured_under_all,
    reply_f1,
)
from okralong.pipelines.training.say import Say

FIGURES: Final = "figures.json"
PAGE: Final = "figures.md"


def reconstruction_figures(
    learners: Mapping[str, SaraLearner], examples: Mapping[str, Sequence[MixedExample]], config: SaraConfig, say: Say
) -> dict[str, dict[str, Compared]]:
    """By what was learned so far, in that order, and by task ("alignment", "reconstruction")."""
    found: dict[str, dict[str, Compared]] = {}
    before: dict[str, Measured] = {}
    for name, learner in learners.items():
        for task, some in examples.items():
            if some:
                seen = measured_under_all(learner, some, config.figures.batch_size, config.seed)
                found.setdefault(name, {})[task] = comparison(seen, before.get(task))
                before[task] = seen["true"]
                say(f"{name}, {task}: true less shuffled {shown(found[name][task].less_shuffled)}")
    return found


def answer_figures(
    learner: SaraLearner,
    asked: Sequence[Asked],
    encode: Encode,
    config: SaraConfig,
    compressor: Compressor,
    say: Say,
    alone: bool = False,
) -> dict[str, Compared]:
    """The likelihood of gold answers by the number of chunks that stand as text; ``asked`` are cut to what is wanted.

    All rows are of the same first questions, but for a second row of vectors alone, which is of more of them. With
    ``alone`` only vectors alone are measured, and no reply is written: enough to see what they tell a generator that
    never learned to read them. Of a question's wordings of the answer the first counts.
    """
    sizes, found = config.figures, {}
    chosen_by = compressor if config.reranking and config.compression else None
    for count in sizes.as_text:
        if count and alone:
            continue
        more = [] if count or sizes.questions_without_text <= sizes.questions else [sizes.questions_without_text]
        for number in (sizes.questions, *more):
            wanted = asked[:number]
            name = f"{count} as text" if number == sizes.questions else f"{count} as text, {len(wanted)} questions"
            examples = instruction_examples(wanted, encode, [count] * len(wanted), chosen_by, config.compression)
            row = compared(learner, examples, sizes.batch_size, config.seed)
            if not alone and sizes.replies and number == sizes.questions:
                answers = [each.answers for each in wanted[: sizes.replies]]
                f1 = reply_f1(learner, examples[: sizes.replies], answers, sizes.batch_size)
                row = replace(row, replies=len(answers), f1=f1)
            say(f"{name}: true less shuffled {shown(row.less_shuffled)}")
            found[name] = row
    return found


def write_figures(out: Path, parts: Mapping[str, Mapping[str, Compared]], about: str) -> list[Path]:
    """Both files; ``parts`` are tables by their heading, rows by their name."""
    values = {title: {name: asdict(each) for name, each in rows.items()} for title, rows in parts.items()}
    (out / FIGURES).write_text(json.dumps({"about": about, **values}, indent=1) + "\n", encoding="utf-8")
    sections = ["# Figures of a trained SARA", about]
    for title, rows in parts.items():
        sections += [f"## {title}", table(rows)]
    (out / PAGE).write_text("\n\n".join(sections) + "\n", encoding="utf-8")
    return [out / PAGE, out / FIGURES]


def table(rows: Mapping[str, Compared]) -> str:
    """A line for each row: nats a token, 95 % intervals over documents, differences paired."""
    head = ["", "examples (documents)", "true", "shuffled", "none", "true - shuffled", "true - none"]
    staged = any(each.less_before is not None for each in rows.values())
    head += ["true - a stage earlier"] if staged else []
    head += ["foretold: true", "shuffled", "none"]
    head += ["F1 (replies)"] if (answered := any(each.f1 is not None for each in rows.values())) else []
    lines = [head, ["---"] * len(head)]
    for name, each in rows.items():
        nll = [_value(each.nll[condition]) for condition in each.nll]
        right = [_value(each.accuracy[condition], share=True) for condition in each.accuracy]
        counted = f"{each.examples:,} ({each.documents:,})"
        earlier = [shown(each.less_before) if each.less_before else "-"] if staged else []
        lines.append([name, counted, *nll, shown(each.less_shuffled), shown(each.less_none), *earlier, *right])
        lines[-1] += [f"{_ranged(each.f1)} ({each.replies})" if each.f1 else "-"] if answered else []
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(each: Estimate) -> str:
    """A difference with its interval."""
    if each.value is None or each.low is None or each.high is None:
        return "-"
    return f"{each.value:+.3f} [{each.low:+.3f}, {each.high:+.3f}]"


def _ranged(each: Estimate) -> str:
    if each.value is None or each.low is None or each.high is None:
        return _value(each)
    return f"{each.value:.3f} [{each.low:.3f}, {each.high:.3f}]"


def _value(each: Estimate, share: bool = False) -> str:
    if each.value is None:
        return "-"
    return f"{each.value:.1%}" if share else f"{each.value:.3f}"
