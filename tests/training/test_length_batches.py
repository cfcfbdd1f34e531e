"""Batches: every example once, those on one context together, little padding, the same order for the same seed."""

from __future__ import annotations

from okralong.lab.training.learners.fit import LengthBatches
from okralong.lab.training.recipe import Example, ReadingExample
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput

EXAMPLES = [Example(AnalysisInput("q" * 10, ("p" * (n * 37 % 400),)), (0, 0, 0)) for n in range(803)]


def padding(order: list[int], size: int) -> int:
    lengths = [EXAMPLES[index].length for index in order]
    batches = [lengths[at : at + size] for at in range(0, len(lengths), size)]
    return sum(max(batch) * len(batch) - sum(batch) for batch in batches)


def test_every_example_once_and_batches_of_like_length() -> None:
    order = list(LengthBatches(EXAMPLES, 8, seed=1))
    assert sorted(order) == list(range(len(EXAMPLES)))
    assert padding(order, 8) < 0.2 * padding(list(range(len(EXAMPLES))), 8)
    firsts = [EXAMPLES[index].length for index in order[:800:8]]
    assert firsts not in (sorted(firsts), sorted(firsts, reverse=True))
    assert list(LengthBatches(EXAMPLES, 8, seed=1)) == order != list(LengthBatches(EXAMPLES, 8, seed=2))
    again = LengthBatches(EXAMPLES, 8, seed=1)
    again.set_epoch(1)
    assert list(again) == list(again) != order
    assert len(LengthBatches(EXAMPLES, 8, seed=1)) == len(EXAMPLES)


def test_examples_of_one_context_stand_in_one_batch_and_every_example_comes_once() -> None:
    rows = [
        ReadingExample("Reply.", f"passage {n % 60}{'.' * (n % 60)}\n\nQuestion: number {n}?", "Answer: x")
        for n in range(240)
        if n < 60 or n % 60 < 43
    ]
    order = list(LengthBatches(rows, 8, seed=1))
    assert sorted(order) == list(range(len(rows)))
    assert list(LengthBatches(rows, 8, seed=1)) == order
    batches = [order[at : at + 8] for at in range(0, len(order), 8)]
    contexts = [len({rows[index].context for index in batch}) for batch in batches]
    # 43 families of four fill two a batch; 17 examples stand alone, of which one fills up the last batch.
    assert sorted(contexts) == [*[2] * 22, 8, 8]
    assert contexts[-1] == 2
