"""Gold answers as wordings, and the parts of them that answer recall looks for; one convention for all sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from okralong.pipelines.evaluation.recall import Parts, answer_recall, findable


def scaled_wordings(spans: Sequence[str], scale: str) -> tuple[str, ...]:
    """The wordings of a TAT-QA answer: its spans with "; " between, and the same with the scale behind it.

    A percentage always has its sign, since a bare number would be another quantity.
    """
    if scale == "percent":
        return ("; ".join(span if "%" in span else f"{span}%" for span in spans),)
    answer = "; ".join(spans)
    return (answer, f"{answer} {scale}") if scale else (answer,)


def span_parts(spans: Sequence[str]) -> Parts:
    """One part for each copied span; none at all when one of them cannot be looked for."""
    found = findable(spans)
    return tuple((span,) for span in found) if len(found) == len(spans) else ()


def operand_parts(operands: Iterable[str]) -> Parts:
    """One part for each operand of a calculation."""
    return tuple((operand,) for operand in operands)


def one_part(answers: Iterable[str]) -> Parts:
    """One part with all wordings of an answer that can be looked for."""
    found = findable(answers)
    return (found,) if found else ()


def grounded(parts: Parts, texts: Sequence[str]) -> Parts:
    """``parts``, or none when there are texts and one part stands in none of them.

    Such an answer was put in other words by its annotator, and no retrieval could show it.
    """
    return parts if not texts or answer_recall(parts, texts) in (None, 1.0) else ()
