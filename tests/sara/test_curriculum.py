"""The order of the alignment stage: from short and plain to long and rich in names."""

from __future__ import annotations

import numpy as np
import pytest

from okralong.lab.training.sara.examples import MixedExample
from okralong.lab.training.sara.train import count_entities, from_plain_to_rich


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("The boat crosses the sound every morning.", 0),
        ("It was founded by Ines Calder.", 1),
        ("Ines Calder founded it.", 1),  # two capitalised words that open a sentence are a name
        ("She was born on 4 May 1921 in Port Ellery.", 2),
        ("In March 2023 the Bank of England lent 4,310 crowns.", 3),
        ("It leads. Then it follows; see p. 12, 13 and 14.", 3),
        ("", 0),
    ],
)
def test_names_dates_and_numbers_are_entities(text: str, entities: int) -> None:
    assert count_entities(text) == entities


def test_short_and_plain_comes_before_long_and_rich() -> None:
    plain = "The boat crosses."
    long = "The boat crosses the sound every morning and comes home in the evening, if the wind allows it. " * 2
    rich = "Ines Calder met Tobias Venn in Port Ellery on 4 May 1921 with 12 men."
    both = f"{long} {rich}"
    found = from_plain_to_rich([example(text) for text in (both, rich, long, plain)])
    assert found[0].reply == plain
    assert found[-1].reply == both


def test_equal_examples_keep_their_order() -> None:
    twins = [example("A boat.", document) for document in ("a", "b", "c")]
    assert [each.document for each in from_plain_to_rich(twins)] == ["a", "b", "c"]


def example(text: str, document: str = "d") -> MixedExample:
    return MixedExample("alignment", document, (text,), text, np.zeros((1, 4), dtype=np.float32))
