"""Measure confidence on answers with gold: Brier score beside the best constant, risk-coverage, calibration, per kind.

    python -m benchmarks.confidence RUN... --questions FILE... --out benchmarks/results/confidence_test.md

Runs are run folders or sweeps' folders, whose cells need no --questions. The confidence is computed from the signals
that the runs recorded, by the shipped model or by --model; with --recorded it is the one that they recorded. What the
figures mean is in ``okralong/lab/confidence/figures.py``; intervals are 95 %, bootstrap over documents. An answer is
right if its typed value is, if it is the number that the gold answer is, or else with F1 0.5 or more; a refusal is
right if the gold answer is "unanswerable".
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from okralong.lab.confidence.answers import Judged, judged_answers
from okralong.lab.confidence.figures import by_kind, diagrams, summary
from okralong.lab.confidence.fit import Held, estimate, held_out
from okralong.pipelines.answering.confidence_model import SHIPPED, load_confidence


def held(answers: Sequence[Judged], model: str, recorded: bool = False) -> list[Held]:
    """Return the answers with the confidence by a model, or with the recorded one. Raises SystemExit for "none"."""
    if recorded:
        return [Held(each, each.confidence) for each in answers]
    found = load_confidence(model)
    if found is None:
        raise SystemExit("--model takes shipped or a file, not none.")
    return [Held(each, estimate(found, each)) for each in answers]


def groups(every: Sequence[Held]) -> dict[str, list[Held]]:
    """Return all answers, those of each thing that replied, and those of each data set."""
    found = {"All answers": list(every)}
    for name in sorted({each.answer.replied_by.partition("@")[0] for each in every} - {""}):
        found[f"Replied by {name}"] = [each for each in every if each.answer.replied_by.partition("@")[0] == name]
    for name in sorted({each.answer.source for each in every}):
        found[f"Questions of {name}"] = [each for each in every if each.answer.source == name]
    return found


def main() -> None:
    """Print and write the tables and the diagram."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", help="run folders, or sweeps' folders")
    parser.add_argument("--questions", nargs="*", default=[], help="files with gold answers, one or one a run")
    parser.add_argument("--model", default=SHIPPED, help="shipped, or a file of `okralong calibrate`")
    parser.add_argument("--recorded", action="store_true", help="the confidence that the runs recorded")
    parser.add_argument("--left-out", action="store_true", help="fit on the other data sets of these runs instead")
    parser.add_argument("--out", type=Path, help="a Markdown file; the diagram is written beside it")
    given = parser.parse_args()
    answers = judged_answers(given.runs, given.questions)
    if given.left_out:
        every = held_out(answers, lambda each: each.source)
    else:
        every = held(answers, given.model, given.recorded)
    options = f"{' --left-out' * given.left_out}{' --recorded' * given.recorded}"
    names = " ".join(Path(run).name for run in given.runs)
    page = f"# Confidence\n\n`python -m benchmarks.confidence {names}{options}`\n\n{summary(groups(every))}\n"
    print(page)
    if given.out is not None:
        given.out.write_text(page, encoding="utf-8")
        given.out.with_suffix(".svg").write_text(diagrams(by_kind(every)), encoding="utf-8")


if __name__ == "__main__":
    main()
