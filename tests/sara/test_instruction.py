"""Instruction tuning for real, of the embedded generator: what vectors say makes held-out answers likelier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from okralong.lab.training.learners.fit import fit
from okralong.lab.training.sara.config import SaraConfig
from okralong.lab.training.sara.examples import MixedExample
from okralong.lab.training.sara.report import compared
from okralong.lab.training.sara.train import Generator, SaraLearner
from okralong.pipelines.core.config import parse_config
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.sara.compressor import Compressor
from okralong.pipelines.sara.config import shipped_folder

SAID = {
    "ferries": "The ferry from {} sails twice a day, and its captain waits for nobody on the quay.",
    "bread": "The bakery of {} sells rye bread and rolls, and heats its oven long before sunrise.",
    "telescopes": "At the observatory of {} a telescope follows distant stars through the clear winter nights.",
    "orchards": "The orchards around {} bear apples and pears, which are picked and pressed in October.",
}
TOWNS = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir", "Gorse", "Hazel", "Ivy")
LEARNED = 6

CONFIG = """
texts: {sample: {reports: 4, questions: 8, words: 1500}}
alignment: {examples: 1, learning_rate: 0.1, reply_tokens: 1}
instruction: {examples: 24, epochs: 4, batch_size: 12, learning_rate: 0.004, reply_tokens: 6, evaluations: 1}
"""


def examples(encode: Callable[[list[str]], Any], towns: tuple[str, ...]) -> list[MixedExample]:
    """A question with one compressed chunk about each subject in each town."""
    found = []
    for town in towns:
        for answer, template in SAID.items():
            text = template.format(town)
            named = f"{town}-{answer}"
            found.append(MixedExample("instruction", named, (text,), answer, encode([text]), "What is it about?"))
    return found


@pytest.mark.soak  # two minutes; test_training.py trains all stages of a tiny generator, which come to use true vectors
def test_true_vectors_raise_the_likelihood_of_held_out_answers(
    minilm: Callable[[list[str]], Any], tmp_path: Path
) -> None:
    config = parse_config(SaraConfig, CONFIG, "here")
    stage, shipped = config.instruction, shipped_folder()
    assert stage is not None
    assert shipped is not None
    generator = Generator.load(EMBEDDED)
    adapted = generator.adapted(stage, config)
    compressor = Compressor.load(shipped).to(generator.device)
    learner = SaraLearner(adapted.model, adapted.tokenizer, compressor, EMBEDDED, stage.reply_tokens)
    train, held = examples(minilm, TOWNS[:LEARNED]), examples(minilm, TOWNS[LEARNED:])
    fit(learner, config.recipe(stage), train, held, tmp_path, generator.device)
    found = compared(learner, held, 12, seed=1)
    assert found.less_shuffled.high is not None
    assert found.less_shuffled.high < 0
    assert found.less_none.high is not None
    assert found.less_none.high < 0
