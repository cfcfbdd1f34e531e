"""The label scorer against a plain forward pass, on a small model with random weights and the embedded vocabulary."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, LlamaForCausalLM

from okralong.pipelines.answering.analyzers.analysis import EVIDENCE, FIELDS, AnalysisInput, format_reply
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.answering.analyzers.label_scorer import (
    LabelScorer,
    opening_ids,
    prompt_ids,
    reply_fields,
    reply_ids,
)
from okralong.pipelines.core.types import Analysis
from tests.fakes.tiny_llama import write_tiny_llama

pytestmark = pytest.mark.slow

LENGTHS = (0, 30, 2, 11, 5, 1, 17, 3)
INPUTS = [
    AnalysisInput(f"What was the revenue in {2000 + n}?", (f"Revenue rose in note {n}. " * n, "The board met."))
    for n in LENGTHS
]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny-llama"), window=2048, seed=11, layers=3, spread=0.35)


@pytest.fixture(scope="module")
def scorer(model_folder: Path) -> LabelScorer:
    return LabelScorer.load(str(model_folder), max_batch=8, precision="float32", device="cpu")


def fields_of(analysis: Analysis) -> list[dict[str, float]]:
    yes = analysis.evidence_probability
    evidence = dict(zip(EVIDENCE, (yes, 1 - yes), strict=True))
    return [dict(analysis.type_probabilities), dict(analysis.pattern_probabilities), evidence]


def naive(model: Any, tokenizer: Any, asked: AnalysisInput) -> list[dict[str, float]]:
    """Each label by a forward pass of its own over the whole sequence."""
    ids, scored = prompt_ids(tokenizer, asked, 1900), []
    for field in reply_fields(tokenizer):
        ids = ids + field.scaffold
        likelihoods = {}
        for label, tokens in field.labels.items():
            with torch.inference_mode():
                logs = model(torch.tensor([ids + tokens])).logits[0].float().log_softmax(-1)
            likelihoods[label] = sum(float(logs[len(ids) - 1 + at, token]) for at, token in enumerate(tokens))
        total = math.fsum(math.exp(value) for value in likelihoods.values())
        scored.append({label: math.exp(value) / total for label, value in likelihoods.items()})
        ids = ids + field.labels[max(likelihoods, key=lambda label: likelihoods[label])]
    return scored


def test_scores_equal_a_plain_forward_pass(scorer: LabelScorer, model_folder: Path) -> None:
    model = LlamaForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    analyses = scorer.analyze(INPUTS)
    for asked, analysis in list(zip(INPUTS, analyses, strict=True))[:3]:
        for expected, seen in zip(naive(model, tokenizer, asked), fields_of(analysis), strict=True):
            assert seen == pytest.approx(expected, abs=1e-5)


def test_neighbours_in_a_batch_change_nothing(scorer: LabelScorer) -> None:
    together = scorer.analyze(INPUTS)
    for asked, analysis in zip(INPUTS, together, strict=True):
        [alone] = scorer.analyze([asked])
        assert (alone.type, alone.pattern, alone.evidence) == (analysis.type, analysis.pattern, analysis.evidence)
        for one, other in zip(fields_of(alone), fields_of(analysis), strict=True):
            assert one == pytest.approx(other, abs=1e-3)


def test_order_is_kept_over_several_passes(model_folder: Path, scorer: LabelScorer) -> None:
    small = LabelScorer.load(str(model_folder), max_batch=3, precision="float32", device="cpu")
    for one, other in zip(small.analyze(INPUTS), scorer.analyze(INPUTS), strict=True):
        assert one.type_probabilities == pytest.approx(other.type_probabilities, abs=1e-3)
    assert small.analyze([]) == []


def test_inputs_and_labels_matter(scorer: LabelScorer) -> None:
    chosen = scorer.analyze(INPUTS)
    assert len({round(analysis.evidence_probability, 6) for analysis in chosen}) == len(INPUTS)
    assert max(chosen[0].type_probabilities.values()) > 0.25


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("bfloat16", 5e-2)])  # three digits
def test_an_adapter_changes_the_scores(
    model_folder: Path, scorer: LabelScorer, tmp_path: Path, precision: str, tolerance: float
) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(3)
    base = LlamaForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    tuned = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"]))
    for name, weights in tuned.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weights, std=0.3)
    tuned.save_pretrained(tmp_path / "adapter")
    config = AnalyzerConfig(kind="label_scorer", model=str(model_folder), adapter=str(tmp_path / "adapter"))
    adapted = load_analyzer(config, precision)
    assert adapted.name == f"label-scorer:{model_folder}+adapter"
    [before], [after] = scorer.analyze(INPUTS[1:2]), adapted.analyze(INPUTS[1:2])
    moved = [abs(before.type_probabilities[label] - after.type_probabilities[label]) for label in FIELDS[0][1]]
    assert max(moved) > 1e-3
    expected = naive(tuned.eval(), AutoTokenizer.from_pretrained(model_folder), INPUTS[1])
    assert after.type_probabilities == pytest.approx(expected[0], abs=tolerance)


def test_labels_that_are_not_wanted_are_not_scored(scorer: LabelScorer) -> None:
    full = scorer.analyze(INPUTS)
    for one, other in zip(full, scorer.analyze([replace(each, evidence=False) for each in INPUTS]), strict=True):
        assert replace(one, evidence=None, evidence_probability=None) == other
    typed = scorer.analyze([replace(each, pattern=False, evidence=False) for each in INPUTS])
    assert [each.type for each in typed] == [each.type for each in full]
    assert all((each.pattern, each.evidence, each.pattern_probabilities) == (None, None, {}) for each in typed)
    mixed = scorer.analyze([INPUTS[0], replace(INPUTS[1], pattern=False, evidence=False)])
    assert (mixed[0].evidence, mixed[1].evidence) == (full[0].evidence, None)


def test_reply_pieces_join_to_the_reply(model_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    labels = ("multi-source", "semantic", "no")
    ids = reply_ids(tokenizer, dict(zip((key for key, _ in FIELDS), labels, strict=True)))
    assert tokenizer.decode(ids[:-1]) == format_reply(*labels)
    assert ids[:-1] == tokenizer(format_reply(*labels), add_special_tokens=False)["input_ids"]
    assert ids[-1] == tokenizer.eos_token_id


def test_a_prompt_over_the_window_is_shortened(scorer: LabelScorer, model_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    long = AnalysisInput("What was sold?", ("short", "word " * 4000))
    kept = prompt_ids(tokenizer, long, 1000)
    assert kept == prompt_ids(tokenizer, AnalysisInput("What was sold?", ("short",)), 1000)
    assert len(prompt_ids(tokenizer, AnalysisInput("word " * 9000, ()), 1000)) <= 1000
    assert len(scorer.analyze([long, INPUTS[0]])) == 2


def test_a_base_model_without_template_gets_a_plain_prompt(model_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.chat_template = None
    text = tokenizer.decode(prompt_ids(tokenizer, INPUTS[3], 1900))
    assert text.endswith("Reply: ")
    assert "<|im_end|>" not in text


def test_the_opening_read_once_is_the_same_as_read_with_each_prompt(scorer: LabelScorer, model_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    opening = opening_ids(tokenizer)
    prompts = [prompt_ids(tokenizer, asked, 1900) for asked in [*INPUTS, AnalysisInput("", ())]]
    assert all(ids[: len(opening)] == opening for ids in prompts)
    assert len(opening) > 100
    first = scorer.analyze(INPUTS)
    # A prompt cut at its beginning, as one odd input may need, takes the whole batch past the shared opening.
    with torch.inference_mode():
        cut = [types for (types,) in scorer.scores([*prompts[:2], prompts[2][5:]], 1)]
    for one, other in zip(first[:2], cut[:2], strict=True):
        assert one.type_probabilities == pytest.approx(other, abs=1e-4)
    assert cut[2] != pytest.approx(first[2].type_probabilities, abs=1e-4)
    assert scorer.analyze(INPUTS) == first
