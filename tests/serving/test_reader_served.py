"""The embedded model with a reader merged in, as llama.cpp and OpenVINO serve it, against the same merge by PEFT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.merged_model import Reader, find_reader
from okralong.pipelines.models.serving import EmbeddedServer, choose
from okralong.pipelines.models.weights import EMBEDDED, converted_model, repacked_gguf
from tests.serving.test_embedded_server import chat

PROMPTS = (
    "What is the capital of France?",
    "Passage: Alder sold 310 boats in 2021.\n\nQuestion: How many boats did Alder sell?",
    "Write one sentence about rain.",
    "Count from one to five.",
)
TOP = 10


def next_logprobs(model: Any) -> list[torch.Tensor]:
    """The log-probabilities of the first token of the reply to each prompt, shape (vocabulary,)."""
    tokenizer: Any = AutoTokenizer.from_pretrained(converted_model())
    found = []
    for prompt in PROMPTS:
        turn = [{"role": "user", "content": prompt}]
        read = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        with torch.inference_mode():
            found.append(model.eval()(**read).logits[0, -1].log_softmax(-1))
    return found


@pytest.fixture(scope="module")
def reader(random_reader: Path) -> Reader:
    found = find_reader(str(random_reader), EMBEDDED, EMBEDDED)
    assert found is not None
    return found


@pytest.fixture(scope="module", params=["llama.cpp", "openvino"])
def server(
    request: pytest.FixtureRequest, reader: Reader, merge_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedServer]:
    logs = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OKRALONG_CACHE", str(merge_cache))
        running = EmbeddedServer.start(engine=request.param, parallel=1, window=2048, log_folder=logs, reader=reader)
    with running:
        yield running


def test_the_server_computes_what_peft_merged(server: EmbeddedServer, reader: Reader) -> None:
    """The mean distance of ten log-probabilities was 0.06 to 0.11 with llama.cpp, as for the bare model; to the bare
    model's 0.8 and more. With the rows of q and k in transformers' order it is above 1.
    """
    base: Any = AutoModelForCausalLM.from_pretrained(converted_model(), dtype=torch.float32)
    bare = next_logprobs(base)
    merged = next_logprobs(PeftModel.from_pretrained(base, str(reader.folder)).merge_and_unload())
    tokenizer: Any = AutoTokenizer.from_pretrained(converted_model())
    agreed, to_merged, to_bare = [], [], []
    for number, prompt in enumerate(PROMPTS):
        reply = chat(server, prompt, max_tokens=1, logprobs=True, top_logprobs=TOP)
        best = reply["choices"][0]["logprobs"]["content"][0]
        if server.engine == "openvino":  # it has the log-probability of the reply's token only
            best["id"] = tokenizer(best["token"], add_special_tokens=False)["input_ids"][0]
            top = [best]
        else:
            top = best["top_logprobs"]
        seen, ids = torch.tensor([one["logprob"] for one in top]), [one["id"] for one in top]
        to_merged.append(float((seen - merged[number][ids]).abs().mean()))
        to_bare.append(float((seen - bare[number][ids]).abs().mean()))
        agreed.append(ids[0] == int(merged[number].argmax()))
    assert sum(to_merged) / len(PROMPTS) < 0.2
    assert sum(to_bare) / len(PROMPTS) > 0.4
    assert sum(agreed) >= len(PROMPTS) - 1  # two tokens may be as good as equally likely


def test_a_merged_model_has_a_name_and_an_identity_of_its_own(server: EmbeddedServer, reader: Reader) -> None:
    assert server.model == f"SmolLM2-135M-Instruct-random-Q8_0@{reader.digest}"
    assert server.identity.endswith(f"+{reader.digest}:q8_0")


def test_a_reader_is_not_merged_into_a_foreign_gguf(reader: Reader) -> None:
    with pytest.raises(ConfigError, match=r"reader .*random cannot be merged into .*Set llm\.reader: none"):
        choose(str(repacked_gguf()), "auto", 1, 512, reader=reader)


def test_the_name_of_a_gguf_file_tells_its_weights() -> None:
    """The name is part of a request's hash: else a run takes the replies of another file of that name for its own."""
    served = choose(str(repacked_gguf()), "auto", 1, 512)
    name, _, stamp = served.name.rpartition("@")
    assert name == repacked_gguf().stem
    assert f"@{stamp}:" in served.identity
