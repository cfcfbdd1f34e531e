"""Train all weights of the question writer, and write many questions with it.

On a machine that has PyTorch and transformers but neither Ray nor Parquet, from a bare checkout:

    python -m okralong.lab.training.learners.question_writer WRITER passages.json written.jsonl

`okralong train-data --for cross_encoder --writer WRITER --export` writes passages.json. If the command is killed, run
it again: it continues after the questions in written.jsonl.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from okralong.lab.training.learners.learner import Definition, Learner, Log, causal_base, evaluations_of
from okralong.lab.training.recipe import ReadingExample, Recipe
from okralong.lab.training.rows.question_writer_rows import (
    SYSTEM,
    WrittenConfig,
    prompt,
    read_passages,
    writer_examples,
    written_in,
    written_line,
)
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import ConfigError, InputError, Message
from okralong.pipelines.models.weights import SAFE, ResolvedModel, available_cores, chat_ids, settle, text_ids

if TYPE_CHECKING:
    from okralong.lab.evidence.sets import Say
    from okralong.lab.training.rows.tables import RankingRow

IGNORED: Final = -100
"""The label of a token that the loss ignores (PyTorch's value)."""


class QuestionWriterLearner(Learner):
    """Trains all weights of a causal language model on ``ReadingExample``s. The loss is computed only on replies.

    ``model`` is a folder or hub name.
    """

    def __init__(self, model: str, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        base: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, **SAFE)
        self.model: Any = base.to(device)
        self.tokenizer: Any = AutoTokenizer.from_pretrained(model, trust_remote_code=False)
        self._device, self._dtype = device, dtype

    def collate(self, examples: Sequence[ReadingExample]) -> dict[str, Any]:
        """Make a batch. ``labels``, shape (n, tokens), ignores all tokens but those of the replies."""
        rows = [self._row(each) for each in examples]
        width, end = max(len(ids) for ids, _ in rows), int(self.tokenizer.eos_token_id)
        return {
            "labels": torch.tensor([[*labels, *[IGNORED] * (width - len(labels))] for _, labels in rows]),
            "input_ids": torch.tensor([[*ids, *[end] * (width - len(ids))] for ids, _ in rows]),
            "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]),
        }

    def forward(self, labels: Tensor, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Return the loss. Logits are computed only at the replies."""
        row, at = (labels[:, 1:] != IGNORED).nonzero(as_tuple=True)
        with torch.autocast(self._device, dtype=torch.bfloat16, enabled=self._dtype == torch.bfloat16):
            states = self.model.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
            logits = self.model.lm_head(states[row, at].contiguous())
        wanted = labels[row, at + 1]
        right = torch.zeros((len(labels), 2), dtype=torch.long, device=labels.device)
        right[:, 0].index_add_(0, row, (logits.argmax(dim=1) == wanted).long())
        right[:, 1].index_add_(0, row, torch.ones_like(row))
        return {"loss": nn.functional.cross_entropy(logits.float(), wanted), "right": right}

    def save(self, folder: Path) -> None:
        """Write a transformers folder in bfloat16, with the tokenizer."""
        self.model.to(torch.bfloat16).save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def _row(self, each: ReadingExample) -> tuple[list[int], list[int]]:
        asked = chat_ids(self.tokenizer, [Message("system", each.instructions), Message("user", each.user)])
        said = [*text_ids(self.tokenizer, each.reply), int(self.tokenizer.eos_token_id)]
        return asked + said, [IGNORED] * len(asked) + said


class QuestionWriterDefinition(Definition["RankingRow", ReadingExample]):
    """The definition of a question writer. It learns from the cross-encoder's rows of the kinds in ``config``."""

    use = "okralong train-data DATA --for cross_encoder --writer {out} --out DIR"

    def __init__(self, config: str) -> None:
        self._source = config

    @cached_property
    def _config(self) -> WrittenConfig:
        # The config is only needed to make examples from rows; another machine gets the examples.
        return load_config(WrittenConfig, self._source)

    def base(self, recipe: Recipe) -> ResolvedModel:
        """See ``Definition``."""
        return causal_base(recipe.model)

    def usable(self, recipe: Recipe, rows: Sequence[RankingRow]) -> list[RankingRow]:
        """Return the rows whose question is of one of the kinds, and which have a passage with its evidence."""
        return [row for row in rows if writer_examples([row], self._config)]

    def examples(self, rows: Sequence[RankingRow]) -> list[ReadingExample]:
        """See ``Definition``."""
        return writer_examples(rows, self._config)

    def learner(
        self, recipe: Recipe, train: Sequence[ReadingExample], base: ResolvedModel, device: str, dtype: torch.dtype
    ) -> Learner:
        """See ``Definition``."""
        return QuestionWriterLearner(base.path, device, dtype)

    def card(
        self, recipe: Recipe, base: str, out: Path, train: Sequence[RankingRow], held: Sequence[RankingRow], log: Log
    ) -> list[str]:
        """See ``Definition``."""
        last = evaluations_of(log)[-1]
        return [
            "# A question writer of okralong",
            f"Made by `okralong train`: {base}, all of its weights. {recipe.schedule_words()} {len(train):,} train "
            f"rows, {len(held):,} validation rows. On validation: loss {last['eval_loss']:.3f} a token of the replies.",
        ]


TEMPERATURE, TOP_P = 0.9, 0.95  # project default
"""Sampling parameters, so that several questions about a passage differ."""

LONGEST_REPLY: Final = 96  # project default
"""Most tokens of a reply; longer replies are skipped. The longest reply in training has 83."""

BATCH: Final = 1024  # project default
"""Number of prompts per batch: one pass on a GPU. The questions of a batch are written to the file together."""

ON_A_PROCESSOR: Final = 16  # project default
"""Number of prompts per pass on a CPU."""


def write_questions(
    writer: Path, passages: Mapping[str, Mapping[str, int]], questions: int | None, written: Path, say: Say
) -> None:
    """Write questions about ``passages`` to the file ``written``: about ``questions`` of those requested (None: all).

    An incomplete file is continued. Replies that are not questions are skipped. Raises InputError if the file was
    started for other passages, ConfigError if ``writer`` cannot be loaded.
    """
    batches = in_batches(passages)
    wanted = batches[: None if questions is None else -(-questions // BATCH)]
    mark = hashlib.sha256(json.dumps(batches).encode()).hexdigest()[:16]
    done = _begin(written, mark)
    if done >= len(wanted):
        return
    device, dtype = settle("auto", "float32", available_cores())
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(writer, dtype=dtype, **SAFE)
        tokenizer: Any = AutoTokenizer.from_pretrained(writer, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The question writer {writer} cannot be loaded: {error}. Give the folder that `okralong train "
            "training/question_writer.yaml` wrote."
        ) from error
    model.to(device).eval()
    size = BATCH if device == "cuda" else ON_A_PROCESSOR
    with written.open("a", encoding="utf-8") as file:
        for number, batch in enumerate(wanted[done:], start=done + 1):
            torch.manual_seed(number)
            parts = [batch[at : at + size] for at in range(0, len(batch), size)]
            replies = [reply for part in parts for reply in _replies(model, tokenizer, part)]
            found = [written_in(reply, *each) for reply, each in zip(replies, batch, strict=True)]
            lines = [written_line(one) for one in found if one is not None]
            file.write("".join(lines) + _marker(number, mark))
            file.flush()
            say(f"  {number:,} of {len(wanted):,} batches: {len(lines):,} of {len(batch):,} replies are questions")


Asked = tuple[str, str]
"""A kind of question, and the passage to ask about."""


def in_batches(passages: Mapping[str, Mapping[str, int]]) -> list[list[Asked]]:
    """Return batches of prompts of similar length, in a random order, so that the first batches are a fair sample."""
    asked = [(kind, passage) for passage, ask in passages.items() for kind, count in ask.items() for _ in range(count)]
    asked.sort(key=lambda each: len(each[1]))
    batches = [asked[at : at + BATCH] for at in range(0, len(asked), BATCH)]
    random.Random(len(asked)).shuffle(batches)
    return batches


def _marker(number: int, mark: str) -> str:
    return json.dumps({"batch": number, "of": mark}) + "\n"


def _begin(written: Path, mark: str) -> int:
    """Return the number of batches in the file, and remove an incomplete one. ``mark`` identifies the prompts."""
    first = _marker(0, mark).encode()
    # A command that was killed early may have written only a part of the first line.
    if not written.is_file() or first.startswith(written.read_bytes()[: len(first) + 1]):
        written.write_bytes(first)
        return 0
    done, end = 0, 0
    with written.open("rb") as file:
        if file.readline() != first:
            raise InputError(
                f"{written} was begun for other passages, or is not a file of written questions. Give the config that "
                "it was made with, or delete it to write the questions again."
            )
        end = file.tell()
        for line in iter(file.readline, b""):
            if line.startswith(b'{"batch"') and line.endswith(b"\n"):
                done, end = int(json.loads(line)["batch"]), file.tell()
    os.truncate(written, end)
    return done


def _replies(model: Any, tokenizer: Any, part: Sequence[Asked]) -> list[str]:
    asked = [[Message("system", SYSTEM), Message("user", prompt(kind, passage))] for kind, passage in part]
    ids = [chat_ids(tokenizer, each) for each in asked]
    end = int(tokenizer.eos_token_id)
    width = max(map(len, ids))
    tokens = torch.tensor([[end] * (width - len(each)) + each for each in ids], device=model.device)
    mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in ids], device=model.device)
    with torch.inference_mode():
        said = model.generate(
            input_ids=tokens,
            attention_mask=mask,
            do_sample=True,
            temperature=TEMPERATURE,
            top_p=TOP_P,
            top_k=0,
            max_new_tokens=LONGEST_REPLY,
            pad_token_id=end,
            eos_token_id=end,
        )
    new = said[:, width:]
    found: list[str] = tokenizer.batch_decode(new, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    # A reply without an end token was truncated, so it is dropped.
    return [reply if end in ids else "" for reply, ids in zip(found, new.tolist(), strict=True)]


def main(arguments: Sequence[str]) -> int:
    """Write questions from the command line."""
    if len(arguments) != 3:
        print("Give three paths: the trained writer, passages.json, and the file that the questions are written to.")
        return 2
    writer, passages, written = map(Path, arguments)
    try:
        asked = read_passages(passages)
        write_questions(writer, asked.passages, asked.questions, written, print)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
