"""The card beside a manifest: what stands where, in tables that a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from okralong.pipelines.evaluation.split.build import LEFT_OUT, Account
from okralong.pipelines.evaluation.split.keys import SIDES
from okralong.pipelines.evaluation.split.rules import SplitRules
from okralong.pipelines.evaluation.split.split import Split

_HEAD = """# The split: what stands on which side

Made by `okralong split`; do not edit. The manifest beside this card holds hashes only, no question and no text.
Train is for models, validation for their temperatures and thresholds, tune for the policy's values; figures come from
test. A question, a document and a paragraph stand on one side each, across all sets. A question text that several
components ask belongs to the strictest of their sides and is left out elsewhere (a generic wording such as "summarize
the meeting" is therefore in test alone). The counts are of the files that were at hand, which are subsets of the public
sets.
"""


def card(account: Account, split: Split, rules: SplitRules) -> str:
    """The card as Markdown."""
    sizes = account.components
    sections = [
        _HEAD,
        f"Seed {rules.seed}, rules {rules.fingerprint()}. {len(split.sides.questions):,} question texts, "
        f"{len(split.sides.documents):,} documents, {len(split.sides.texts):,} further texts with a side of their own; "
        f"{len(sizes):,} components, the largest of {', '.join(map(str, sizes[:5]))} questions.",
        "## Questions by source and side",
        _table(["source", *SIDES, LEFT_OUT, "all"], _count_rows(account.counts)),
        "## Rules",
        "The first line that covers any question of a component decides for all of it, so the counts above differ from "
        "the shares where sets share documents.",
        _table(
            ["sources", "shares", "why"],
            ([", ".join(r.sources), ", ".join(f"{s} {v:g}" for s, v in r.shares.items()), r.why] for r in rules.rules),
        ),
        "## Question texts that two sources both ask",
        _table(["source", "source", "shared"], ([one, other, f"{n:,}"] for one, other, n in account.shared)),
        "## Contexts",
        "The share of the texts in the items' own contexts that they may still show. The rest are distractors which "
        "belong to another side.",
        _table(["source", "kept"], ([source, f"{kept:.1%}"] for source, kept in account.kept.items())),
        "## Documents found under public names",
        _table(["set", "found", "of"], ([name, str(n), str(of)] for name, (n, of) in account.named.items())),
    ]
    return "\n\n".join(section.strip() for section in sections) + "\n"


def _count_rows(counts: Mapping[str, Mapping[str, int]]) -> Iterable[Sequence[str]]:
    columns = (*SIDES, LEFT_OUT)
    totals = dict.fromkeys(columns, 0)
    for source, by_side in counts.items():
        yield [source, *(f"{by_side[column]:,}" for column in columns), f"{sum(by_side.values()):,}"]
        totals = {column: totals[column] + by_side[column] for column in columns}
    yield ["all", *(f"{totals[column]:,}" for column in columns), f"{sum(totals.values()):,}"]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines)
