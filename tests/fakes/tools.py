"""``Tools`` in memory over small documents: real chunks, simple but real retrieval, scripted replies, a full record."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import re
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from okralong.pipelines.answering.ask import Ask
from okralong.pipelines.answering.confidence_model import ConfidenceModel
from okralong.pipelines.answering.organizer import plain_plan
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.retrieve import sort_hits
from okralong.pipelines.answering.tools import Branch, Tools
from okralong.pipelines.archive.cover import read_cover
from okralong.pipelines.archive.metadata import DocumentFacts
from okralong.pipelines.archive.names import DocumentNames
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import (
    NO_SCORES,
    Analysis,
    Candidates,
    Chunk,
    Document,
    Hit,
    Message,
    Pattern,
    Plan,
    QuestionError,
    QuestionType,
    Reading,
    Reply,
    ReplyError,
    RetrieverScores,
    TokenVectors,
    Usage,
    WordKept,
)
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.methods.registry import FullPolicy
from tests.fakes.confidence import covering

Scripted = str | Exception | Reply | Callable[[Sequence[Message]], str]
"""A reply, an error to raise, or what makes a reply of the messages."""


SURE = 0.99
"""The probability of a token that no test doubts."""


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a tool: which, under which step path, and what was asked."""

    tool: str
    step: str
    details: Mapping[str, Any] = field(default_factory=dict)


def paper_policy(**overrides: Any) -> Policy:
    """The shipped policy; ``overrides`` are dotted keys with ``__`` for the dot."""
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_config(FullPolicy, "policy/paper.yaml", dotted)


def analysis(type_: QuestionType, pattern: Pattern = "same", *, evidence: bool = True) -> Analysis:
    """An analyzer's word, sure of itself."""
    return Analysis(type_, pattern, evidence, {type_: 1.0}, {pattern: 1.0}, float(evidence), "scripted")


def ask_of(question: str, tools: Tools) -> Ask:
    """A question with a plain plan, which nothing has analyzed."""
    return Ask(question, tools, plain_plan(150, 5, "test"))


class ScriptedTools:
    """Replies come by role, one after the other; the last one of a role is repeated."""

    def __init__(
        self,
        documents: Sequence[Document],
        replies: Mapping[str, Sequence[Scripted]] | None = None,
        *,
        analysis: Analysis | None = None,
        policy: Policy | None = None,
        window: int = 128_000,
        completion_limit: int = 256,
        calculator: bool = False,
        short_contract: bool = False,
        reads_answers: bool = False,
        reads: bool = False,
        stronger: Mapping[str, Sequence[Scripted]] | None = None,
        probabilities: Mapping[str, float] | None = None,
        answer_type: str = "",
        language: str = "en",
    ) -> None:
        """``probabilities`` are those of some words of replies; the generator is sure of the others. ``stronger`` are
        the replies of a second one."""
        self._probabilities = dict(probabilities or {})
        self.by_doc_id = {document.doc_id: document for document in documents}
        self.scripted = {role: list(texts) for role, texts in (replies or {}).items()}
        self._analysis = analysis
        self._policy = policy or paper_policy()
        self._window = window
        self._limit = completion_limit
        self._calculator = calculator
        self._short_contract = short_contract
        self._reads_answers = reads_answers
        self._reads = reads or reads_answers
        self._stronger = None if stronger is None else {role: list(texts) for role, texts in stronger.items()}
        self.generator = "scripted"
        self.cross_encoder = "scripted-cross-encoder"
        self.answer_type = answer_type
        self._language = language
        self._prefix = ""
        self._chunks: dict[int, list[Chunk]] = {}
        self.calls: list[Call] = []
        self.artifacts: dict[str, Any] = {}
        self.compressions: list[int] = []

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def window(self) -> int:
        return self._window

    def count(self, text: str) -> int:
        return count_tokens(text)

    def completion_limit(self, role: str) -> int:
        return self._limit

    @property
    def calculator(self) -> bool:
        return self._calculator

    @property
    def short_contract(self) -> bool:
        return self._short_contract

    @property
    def quotes(self) -> bool:
        return False

    @property
    def language(self) -> str:
        return self._language

    @property
    def stronger(self) -> ScriptedTools:
        assert self._stronger is not None, "this test scripts no stronger generator"
        tools = ScriptedTools.__new__(ScriptedTools)
        own: dict[str, Any] = {"generator": "stronger", "scripted": self._stronger, "_prefix": "escalated/"}
        tools.__dict__.update(self.__dict__, _reads_answers=False, **own)
        return tools

    @property
    def reads(self) -> bool:
        return self._reads

    @property
    def confidence(self) -> ConfidenceModel | None:
        return covering("scripted")

    @property
    def reads_answers(self) -> bool:
        return self._reads_answers

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """Relevant is what shares words with the query; the answer is probably, not surely, the passage's last word."""
        self._record("read", step, query=query, passages=len(passages))
        shares = [_shared_words(query, text) / len(query.split()) for text in passages]
        starts = [text.rstrip(" .\n").rfind(" ") + 1 for text in passages]
        return [
            Reading(share, min(1.0, share), start, len(text.rstrip(" .\n")), 0.64)
            for share, start, text in zip(shares, starts, passages, strict=True)
        ]

    async def retrieve(
        self, step: str, query: str, *, granularity: int, k: int, doc_ids: Sequence[str] = ()
    ) -> Candidates:
        narrowed = {"doc_ids": list(doc_ids)} if doc_ids else {}
        self._record("retrieve", step, query=query, granularity=granularity, k=k, **narrowed)
        if not self.by_doc_id:
            raise QuestionError("The scope names no document.")
        chunks = [chunk for chunk in self._at(granularity) if not doc_ids or chunk.doc_id in doc_ids]
        exact = [Hit(chunk, score) for chunk in chunks if (score := _shared_words(query, chunk.text)) > 0]
        semantic = [Hit(chunk, _trigram_cosine(query, chunk.text)) for chunk in chunks]
        return Candidates(tuple(sort_hits(exact)[:k]), tuple(sort_hits(semantic)[:k]))

    @property
    def scope_size(self) -> int:
        return len(self.by_doc_id)

    def named(self, query: str) -> dict[str, float]:
        facts = (
            DocumentFacts(each.doc_id, "", each.title, cover=read_cover(each.text, each.title).metadata())
            for each in self.by_doc_id.values()
        )
        return DocumentNames.of(facts).named(query)

    async def analyze(
        self, step: str, question: str, chunks: Sequence[Hit], scores: RetrieverScores = NO_SCORES
    ) -> Analysis:
        self._record("analyze", step, chunks=[hit.chunk for hit in chunks])
        assert self._analysis is not None, "this test scripts no analysis"
        return self._analysis

    async def record_plan(self, step: str, plan: Plan) -> Plan:
        self._record("record_plan", step, plan=plan)
        return plan

    async def complete(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        role: str,
        logprobs: bool = False,
        answer_type: str = "",
        longer: bool = False,
    ) -> Reply:
        typed: dict[str, object] = {"answer_type": answer_type} if answer_type else {}
        typed |= {"longer": True} if longer else {}
        self._record("complete", step, role=role, messages=list(messages), logprobs=logprobs, **typed)
        script = self.scripted[role]
        reply = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, Reply):
            return reply
        text = reply if isinstance(reply, str) else reply(messages)
        if not text:
            raise ReplyError("The reply is empty.")
        prompt = sum(count_tokens(message.content) for message in messages)
        tokens = re.findall(r"\s*\S+|\s+", text) if logprobs else []
        logs = [math.log(self._probabilities.get(token.strip(), SURE)) for token in tokens]
        usage = Usage(prompt, 0, count_tokens(text))
        return Reply(text, self.generator, usage, "stop", 0.0, token_logprobs=tuple(logs), tokens=tuple(tokens))

    async def record_choice(
        self, step: str, query: str, pool: Sequence[Hit], pick: Callable[[], Awaitable[list[Hit]]]
    ) -> list[Hit]:
        self._record("record_choice", step, query=query, pool=list(pool))
        return await pick()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [letter_vector(text) for text in texts]

    async def vectors(self, hits: Sequence[Hit]) -> list[list[float]]:
        return [letter_vector(hit.chunk.text) for hit in hits]

    async def compress(self, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
        self.compressions.append(len(vectors))
        return [list(vector[::-1]) for vector in vectors]

    async def compressed(self, hits: Sequence[Hit]) -> list[TokenVectors]:
        return [token_vectors(hit.chunk.text) for hit in hits]

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        seen = set(prefix.lower().split())
        return [[-0.1 if word in seen else -2.0 for word in text.lower().split()] for text in texts]

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        return [[match.end() for match in re.finditer(r"\S+", text)] for text in texts]

    async def keep(self, texts: Sequence[str]) -> list[list[WordKept]]:
        """A word is the likelier to be kept the longer it is."""
        words = [[match.span() for match in re.finditer(r"\S+?(?=[.?!]?(?:\s|\Z))|[.?!]", text)] for text in texts]
        return [[WordKept(start, end, 1 - 1 / (1 + end - start)) for start, end in each] for each in words]

    async def remember(self, step: str, asked: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        self._record("remember", step, asked=json.loads(json.dumps(asked)))
        return json.loads(json.dumps(await make()))

    async def artifact(
        self, name: str, doc_id: str, branch: Branch, *, version: int = 0, roles: Sequence[str] = ()
    ) -> Any:
        key = f"artifact/{name}/{doc_id}"
        if key not in self.artifacts:
            tools = ScriptedTools.__new__(ScriptedTools)
            own = {doc_id: self.by_doc_id[doc_id]} if doc_id in self.by_doc_id else {}
            tools.__dict__.update(self.__dict__, _prefix=f"{key}/", by_doc_id=own, _chunks={})
            operator, arguments = pickle.loads(pickle.dumps((branch.operator, dict(branch.arguments))))
            self.artifacts[key] = json.loads(json.dumps(await operator(tools, **arguments)))
        return self.artifacts[key]

    async def documents(self) -> list[tuple[str, int]]:
        return [(doc_id, count_tokens(document.text)) for doc_id, document in sorted(self.by_doc_id.items())]

    async def full_text(self, doc_id: str) -> Document:
        self._record("full_text", doc_id)
        return self.by_doc_id[doc_id]

    async def gather(self, branches: Sequence[Branch]) -> list[Any]:
        return list(await asyncio.gather(*(self._run(branch) for branch in branches)))

    def steps(self) -> list[tuple[str, str]]:
        """``(tool, step path)`` of each journalled call, in order; reads of whole documents are left out."""
        return [(call.tool, call.step) for call in self.calls if call.tool != "full_text"]

    def of(self, tool: str) -> list[Call]:
        """The calls of one tool."""
        return [call for call in self.calls if call.tool == tool]

    def prompt(self, step: str) -> str:
        """All text that was sent under a step."""
        messages = next(call.details["messages"] for call in self.of("complete") if call.step == step)
        return "\n".join(message.content for message in messages)

    async def _run(self, branch: Branch) -> Any:
        # Branches travel between processes, so what cannot be pickled must fail here too.
        operator, arguments = pickle.loads(pickle.dumps((branch.operator, dict(branch.arguments))))
        tools = ScriptedTools.__new__(ScriptedTools)
        own: dict[str, Any] = {"_prefix": f"{self._prefix}{branch.path}/"}
        if branch.answer_type is not None:
            own["answer_type"] = branch.answer_type
        if branch.doc_ids:
            own |= {"by_doc_id": {doc_id: self.by_doc_id[doc_id] for doc_id in branch.doc_ids}, "_chunks": {}}
        tools.__dict__.update(self.__dict__, **own)
        return pickle.loads(pickle.dumps(await operator(tools, **arguments)))

    def _record(self, tool: str, step: str, **details: Any) -> None:
        path = step if tool == "full_text" else self._prefix + step
        if tool != "full_text":
            taken = {call.step for call in self.calls if call.tool != "full_text"}
            assert path not in taken, f"the step path {path} is used twice in one question"
        self.calls.append(Call(tool, path, details))

    def _at(self, granularity: int) -> list[Chunk]:
        if granularity not in self._chunks:
            self._chunks[granularity] = [
                chunk for document in self.by_doc_id.values() for chunk in chunk_document(document, granularity)
            ]
        return self._chunks[granularity]


def letter_vector(text: str) -> list[float]:
    """A unit vector of how often each letter stands in ``text``."""
    counts = [text.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"]
    norm = sum(count * count for count in counts) ** 0.5 or 1.0
    return [count / norm for count in counts]


def token_vectors(text: str, rows: int = 1) -> TokenVectors:
    """What stands for ``text`` in a prompt: ``rows`` times its letters."""
    return TokenVectors(array("f", letter_vector(text) * rows).tobytes(), rows)


def _shared_words(query: str, text: str) -> float:
    words = Counter(re.findall(r"\w+", text.lower()))
    shared = [words[word] for word in set(re.findall(r"\w+", query.lower())) if words[word]]
    return sum(1 + count / (count + 1) for count in shared)


def _trigram_cosine(query: str, text: str) -> float:
    one, other = (Counter(low[i : i + 3] for i in range(len(low) - 2)) for low in (query.lower(), text.lower()))
    norm = (sum(n * n for n in one.values()) * sum(n * n for n in other.values())) ** 0.5
    return sum(count * other[gram] for gram, count in one.items()) / norm if norm else 0.0
