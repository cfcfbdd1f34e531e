"""Write sub-questions and next queries in the bench: by the set itself, or by a model.

The bench runs the real strategies, so a writer uses the generator's roles and prompt contracts. It does not
write answers: a request for one gets "unanswerable".
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
from okralong.pipelines.llm.endpoint import NO_KEY, open_client
from okralong.pipelines.llm.request import LlmRequest
from okralong.pipelines.models.merged_model import find_reader
from okralong.pipelines.models.serving import EmbeddedServer
from okralong.pipelines.models.weights import EMBEDDED, SHIPPED

NO_ANSWER: Final = "Answer: unanswerable"

WRITTEN: Final = ("split", "step")
"""The roles that write queries."""

WINDOW: Final = 128_000
"""GPT-4o's window (paper section 4.2), wide enough that nothing is truncated and only the policy matters."""

LONGEST: Final = 380
"""Characters of a query that are sent; the parsers drop or truncate those above 400."""

_STEP: Final = re.compile(r"(?:^|/)step/(\d+)/")

Ask = Callable[[Sequence[Message], str], Awaitable[str]]
"""Sends messages for a role to a model; returns the reply's text."""


class Writer(Protocol):
    """Replaces the generator."""

    @property
    def name(self) -> str:
        """The model name in replies."""
        ...

    @property
    def window(self) -> int:
        """Tokens of a prompt and its reply together."""
        ...

    @property
    def demonstrate(self) -> bool:
        """True if each prompt is preceded by a worked example."""
        ...

    def count(self, text: str) -> int:
        """Count the writer's own tokens of a text."""
        ...

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """Return the reply at a step of a question with these gold queries."""
        ...


class GoldWriter:
    """Returns the set's own queries, one per step.

    It never ends the steps early; the method does when a retrieval finds nothing new, and at the policy's bound.
    """

    name = "gold"
    window = WINDOW
    demonstrate = False

    def count(self, text: str) -> int:
        """Count o200k tokens."""
        return count_tokens(text)

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """Return all queries for a split, or the query of the step's number."""
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
    """A small model writes; ``ask`` sends it the prompts of an answer run, including the worked example."""

    name: str
    ask: Ask
    window: int
    count: CountTokens
    demonstrate: bool = True

    async def write(self, gold_queries: Sequence[str], path: str, role: str, messages: Sequence[Message]) -> str:
        """See ``Writer``."""
        return await self.ask(messages, role) if role in WRITTEN else NO_ANSWER


def as_question(query: str) -> str:
    """Return a query in a form that both parsers keep: one line of several words with a final question mark.

    A title that they would drop as a bullet ("B. Traven"), as nothing ("No More") or as a remark (one word) becomes a
    sentence.
    """
    line = " ".join(query.replace("?", " ").split())[:LONGEST].rstrip(".!: ") or " ".join(query.split())
    plain = f"{line}?"
    survives = parse_split(plain, "", 1) == [plain] and parse_step(f"Query: {plain}\nAnswer: none").query == plain
    return plain if survives else f"What is {line}?"


# --------
# The embedded model as the bench's writer, alone or with the shipped reader. A sweep starts it when needed and keeps
# its replies for the next run.

COMPLETION_TOKENS: Final = {"split": 96, "step": 160}
"""By role, as in the shipped answer config."""

TIMEOUT_S: Final = 600.0
"""As in the shipped answer config: two cores read a long prompt in half a minute."""

SEED: Final = 7
"""As in the shipped answer config; at temperature 0 it has no effect."""


@dataclass
class KeptReplies:
    """Replies by prompt, in a file of JSON lines, so that no prompt is ever sent twice.

    Only one process at a time may use a file.
    """

    file: Path
    _known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file.is_file():
            for line in self.file.read_text(encoding="utf-8").split("\n"):
                # A killed run's incomplete line is requested again.
                with suppress(ValueError):
                    row = json.loads(line)
                    self._known[row["key"]] = row["reply"]

    def get(self, key: str) -> str | None:
        """Return the reply known for a key, or None."""
        return self._known.get(key)

    def keep(self, key: str, reply: str) -> None:
        """Remember a reply, and write it to disk at once."""
        self._known[key] = reply
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as out:
            # The line break comes first, to end a line that was left incomplete.
            out.write("\n" + json.dumps({"key": key, "reply": reply}))


@dataclass(frozen=True)
class KnownModel:
    """A served model as the writer calls it.

    Kept replies are keyed by ``identity``, as ``base_url`` changes with every start of an own server. ``demonstrate``
    puts a worked example before each prompt, ``constrained`` sends each role's grammar.
    """

    base_url: str
    model: str
    identity: str
    demonstrate: bool = True
    constrained: bool = False


@contextmanager
def model_writers(sweep: Sweep, work: Path) -> Iterator[dict[str, ModelWriter]]:
    """Yield a writer for each model that the sweep's methods name: the embedded one alone, and with the shipped reader.

    Raises whatever starting the embedded server raises.
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
                constrained=reader is not None and server.engine == "llama.cpp",
            )
            count = token_counter(str(server.tokenizer))
            writers[name] = asking_writer(served, work / "replies.jsonl", server.window, count)
        yield writers


def asking_writer(served: KnownModel, kept_in: Path, window: int, count: CountTokens) -> ModelWriter:
    """Return a writer that asks a served model each prompt once; its replies are kept in the file ``kept_in``.

    ``window`` and ``count`` are in the model's own tokens. The writer raises the errors of the ``openai`` client.
    """
    config = LlmConfig(model=served.model, timeout_s=TIMEOUT_S)
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
            async with open_client(config, served.base_url, NO_KEY) as client:
                found = await client.chat.completions.create(**request.parameters())
            reply = found.choices[0].message.content or ""
            kept.keep(key, reply)
        return reply

    return ModelWriter(served.model, ask, window, count, served.demonstrate)
