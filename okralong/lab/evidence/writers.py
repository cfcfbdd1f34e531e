"""Writers of sub-questions and next queries in the bench: the set itself, or a model.

The bench runs the real strategies, so a writer has the generator's roles and prompts. It does not write answers: the
reply to an answer prompt is "unanswerable".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from okralong.lab.evidence.config import PolicyMethod, Sweep
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompts import parse_split, parse_step
from okralong.pipelines.core.tokens import CountTokens, count_tokens, token_counter
from okralong.pipelines.core.types import Message
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.endpoint import NO_KEY
from okralong.pipelines.llm.providers.base import Connection
from okralong.pipelines.llm.providers.openai import open_client
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.models.merged_model import find_reader
from okralong.pipelines.models.serving import EmbeddedServer
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED

NO_ANSWER: Final = "Answer: unanswerable"

WRITTEN: Final = ("split", "step")
"""The roles that write queries."""

WINDOW: Final = 128_000
"""GPT-4o's window (paper appendix B.2). It is so large that nothing is truncated, so only the policy matters."""

LONGEST: Final = 380
"""Most characters of a query in a reply; the parsers drop or truncate longer ones, from 400 on."""

_STEP: Final = re.compile(r"(?:^|/)step/(\d+)/")

Ask = Callable[[Sequence[Message], str], Awaitable[str]]
"""A function that sends messages for a role to a model, and returns the reply's text."""


class Writer(Protocol):
    """The interface of writers, which replace the generator."""

    @property
    def name(self) -> str:
        """The model name in replies."""
        ...

    @property
    def window(self) -> int:
        """The most tokens of a prompt and its reply together."""
        ...

    @property
    def demonstrate(self) -> bool:
        """True if prompts have a worked example."""
        ...

    def count(self, text: str) -> int:
        """Count the tokens of a text in the writer's vocabulary."""
        ...

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """Return the reply at a step of a question with these gold queries."""
        ...


class GoldWriter:
    """A writer that replies with the set's own queries, one per step.

    It never ends the steps. The method ends them if a retrieval finds nothing new, or at the policy's bound.
    """

    name = "gold"
    window = WINDOW
    demonstrate = False

    def count(self, text: str) -> int:
        """Count o200k tokens."""
        return count_tokens(text)

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """Return all queries for a split, or the query with the number of the step."""
        if role == "split":
            return "\n".join(map(as_question, gold_queries))
        step = _STEP.search(path)
        if role == "step" and step is not None:
            number = int(step[1])
            query = as_question(gold_queries[number - 1]) if number <= len(gold_queries) else "none"
            return f"Evidence: none\nQuery: {query}\nAnswer: none"
        return NO_ANSWER


@dataclass
class ModelWriter:
    """A writer that is a small model. ``ask`` sends it the prompts of a run, including the worked example."""

    name: str
    ask: Ask
    window: int
    count: CountTokens
    demonstrate: bool = True

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """See ``Writer``."""
        return await self.ask(messages, role) if role in WRITTEN else NO_ANSWER


def as_question(query: str) -> str:
    """Return a query in a form that both parsers accept: one line of several words with a final question mark.

    A title that they would take for a bullet ("B. Traven"), for "no query" ("No More") or for a remark (one word)
    becomes a sentence.
    """
    line = " ".join(query.replace("?", " ").split())[:LONGEST].rstrip(".!: ") or " ".join(query.split())
    plain = f"{line}?"
    survives = parse_split(plain, "", 1) == [plain] and parse_step(f"Query: {plain}\nAnswer: none").query == plain
    return plain if survives else f"What is {line}?"


# --------
# The embedded model as a writer, alone or with the shipped reader adapter. A sweep starts it if needed, and keeps its
# replies for the next run.

COMPLETION_TOKENS: Final = {"split": 96, "step": 160}
"""The reply limits by role, as in the shipped answer config."""

TIMEOUT_S: Final = 600.0
"""Seconds, as in the shipped answer config: two cores read a long prompt in half a minute."""

SEED: Final = 7
"""The seed of the shipped answer config. At temperature 0 it has no effect."""


@dataclass
class KeptReplies:
    """Replies by prompt, stored as JSON lines in a file, so that no prompt is ever sent twice.

    Only one process at a time may use a file.
    """

    file: Path
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file.is_file():
            for line in self.file.read_text(encoding="utf-8").split("\n"):
                # An incomplete line, left by a killed run, is ignored and requested again.
                with suppress(ValueError):
                    row = json.loads(line)
                    self._known[row["key"]] = row["reply"]

    def get(self, key: str) -> str | None:
        """Return the stored reply for a key, or None."""
        return self._known.get(key)

    def keep(self, key: str, reply: str) -> None:
        """Store a reply, writing it to disk at once."""
        self._known[key] = reply
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as out:
            # The line break is written first, to end a line that may be incomplete.
            out.write("\n" + json.dumps({"key": key, "reply": reply}))


@dataclass(frozen=True)
class KnownModel:
    """A served model that a writer calls.

    Stored replies are keyed by ``identity``, since ``base_url`` changes with every start of a local server. With
    ``demonstrate`` each prompt has a worked example; with ``constrained`` the role's grammar is sent.
    """

    base_url: str
    model: str
    identity: str
    demonstrate: bool = True
    constrained: bool = False


@contextmanager
def model_writers(sweep: Sweep, work: Path) -> Iterator[dict[str, ModelWriter]]:
    """Yield the writers that methods of the sweep name: the embedded model alone, and with the shipped reader adapter.

    Raises what starting the embedded server raises.
    """
    wanted = {method.writer for method in sweep.methods.values() if isinstance(method, PolicyMethod)}
    with ExitStack() as servers:
        writers: dict[str, ModelWriter] = {}
        for name in sorted(wanted - {"gold"}):
            reader = find_reader(SHIPPED, EMBEDDED, EMBEDDED) if name == "reader" else None
            server = servers.enter_context(EmbeddedServer.start(reader=reader))
            served = KnownModel(
                server.base_url,
                server.model,
                server.identity,
                demonstrate=reader is None,
                constrained=reader is not None,
            )
            count = token_counter(str(server.tokenizer))
            writers[name] = asking_writer(served, work / "replies.jsonl", server.window, count)
        yield writers


def asking_writer(served: KnownModel, kept_in: Path, window: int, count: CountTokens) -> ModelWriter:
    """Return a writer that sends each prompt to a served model once, and stores replies in the file ``kept_in``.

    ``window`` and ``count`` are in the model's own tokens. The writer raises the exceptions of the ``openai`` client.
    """
    config = LlmConfig(model=served.model)
    kept = KeptReplies(kept_in)

    async def ask(messages: Sequence[Message], role: str) -> str:
        limit = COMPLETION_TOKENS[role]
        rules = grammar(role, messages) if served.constrained else None
        request = LlmRequest(served.model, EMBEDDED, tuple(messages), max_tokens=limit, seed=SEED, grammar=rules)
        prompt = [{"role": message.role, "content": message.content} for message in messages]
        asked = [served.identity, limit, prompt, *([rules] if rules else [])]
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        reply = kept.get(key)
        if reply is None:
            async with open_client(config, Connection(served.base_url, NO_KEY, TIMEOUT_S)) as client:
                found = await client.chat.completions.create(**request.parameters())
            reply = found.choices[0].message.content or ""
            kept.keep(key, reply)
        return reply

    return ModelWriter(served.model, ask, window, count, served.demonstrate)
