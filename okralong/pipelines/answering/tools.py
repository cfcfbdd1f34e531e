"""What a strategy may do: the one interface between a method and the run that carries it out.

A strategy is an async function ``answer(question, tools) -> Answer``. It sees documents, retrievers, analyzer and
generator only through ``Tools``; every call is named by a ``step``, and the step path (``split/2/retrieve``) is the
key under which the journal keeps what came back, so that a run that was killed repeats nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.types import (
    NO_SCORES,
    Analysis,
    Answer,
    Candidates,
    Document,
    Hit,
    Message,
    Plan,
    Question,
    Reading,
    Reply,
    RetrieverScores,
    TokenVectors,
    WordKept,
)

ESCALATED: Final = "escalated"
"""The step path under which an answer is asked for again, because the first one was not trusted."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A piece of a question's work that runs beside its other branches, as a remote task of its own.

    ``operator`` is a module-level async function called as ``operator(tools, **arguments)``, with tools whose steps
    are put under ``path`` (e.g. "split/2"). Arguments and result travel between processes: plain values only.
    ``doc_ids``, of the question's scope, are the branch's (none: the same scope); ``answer_type`` is that of its
    answers (None: the question's).
    """

    path: str
    operator: Callable[..., Awaitable[Any]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    doc_ids: tuple[str, ...] = ()
    answer_type: str | None = None

    def posed(self, question: Question, doc_ids: tuple[str, ...]) -> tuple[Question, tuple[str, ...]]:
        """The question and the scope of the branch, of those of the question that it belongs to."""
        if self.answer_type is not None:
            question = replace(question, answer_type=self.answer_type)
        return question, self.doc_ids or doc_ids


LACKING: Final = "lacking"
"""Step of an artifact that lists the steps whose replies could not be used (see ``note_lacking``)."""


async def note_lacking(tools: Tools, steps: Sequence[str]) -> None:
    """Record at which steps of an artifact a placeholder stands for an unusable reply. The archive then does not keep
    the artifact, so that later runs ask again.
    """

    async def said() -> list[str]:
        return sorted(steps)

    if steps:
        await tools.remember(LACKING, {}, said)


class Retriever(Protocol):
    """The part of ``Tools`` that retrieval alone needs."""

    @property
    def policy(self) -> Policy:
        """The constants that the run was started with."""
        ...

    async def retrieve(
        self, step: str, query: str, *, granularity: int, k: int, doc_ids: Sequence[str] = ()
    ) -> Candidates:
        """The top ``k`` chunks of the question's scope for each retriever; fewer when the scope is smaller, and none of
        the semantic one where the archive has no vectors. ``doc_ids``, of the scope, narrow it for this look-up.

        Raises QuestionError when the scope names no document.
        """
        ...

    @property
    def scope_size(self) -> int:
        """How many documents the question may be answered from."""
        ...

    def named(self, query: str) -> dict[str, float]:
        """The documents of the scope that ``query`` calls by a word of their names, each with a share of 0 to 1 (see
        ``DocumentNames``); none where the scope has one document.
        """
        ...

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """What the run's cross-encoder says of each passage for ``query``, in their order; at least one.

        Made durable before it is used: two passes may round differently. Raises ConfigError when the run has none.
        """
        ...


class Tools(Retriever, Protocol):
    """The tools of one question (its scope and its step path are inside)."""

    @property
    def window(self) -> int:
        """Tokens that the generator's window holds, prompt and reply together, in the generator's own tokens."""
        ...

    def count(self, text: str) -> int:
        """Tokens of ``text`` in the generator's own vocabulary."""
        ...

    def completion_limit(self, role: str) -> int:
        """Most completion tokens that a call of ``role`` may take."""
        ...

    @property
    def calculator(self) -> bool:
        """Whether the generator answers calculations with formulas, which the executor works out."""
        ...

    @property
    def short_contract(self) -> bool:
        """Whether answers are asked for by the short contract: the answer, then the number of a passage."""
        ...

    async def analyze(
        self, step: str, question: str, chunks: Sequence[Hit], scores: RetrieverScores = NO_SCORES
    ) -> Analysis:
        """What the analyzer says of a question, its primary chunks, and how the retrievers scored what they found."""
        ...

    async def record_plan(self, step: str, plan: Plan) -> Plan:
        """Make a plan durable before anything is spent on it, and admit the question to the budget.

        Returns the plan to follow: on a resumed run the one recorded first. Raises OverBudget.
        """
        ...

    @property
    def answer_type(self) -> str:
        """The type of the question's answer, as ``AnswerType`` writes it; "" for text."""
        ...

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
        """One call of the generator. ``role``, a key of ``llm.max_completion_tokens``, chooses the completion limit;
        ``longer`` gives it several times as much, as far as the window has room.
        ``answer_type`` is the type that a prompt asks an answer in: an endpoint that can is kept to its form.

        Raises OverBudget, EndpointError (stops the run), CallFailed (no reply: this question fails, let it pass) or
        ReplyError (a reply of no use, kept in the journal; ``citations.ask_for`` asks for a structured one again).
        """
        ...

    @property
    def generator(self) -> str:
        """The generator's name, as the config has it."""
        ...

    @property
    def stronger(self) -> Tools:
        """The tools of the same question with the run's stronger generator (``llm.stronger``), which answers all by
        itself; their steps are put under ``escalated``. Raises ConfigError when the run has none.
        """
        ...

    @property
    def reads(self) -> bool:
        """Whether the run has a cross-encoder that says where an answer stands."""
        ...

    @property
    def reads_answers(self) -> bool:
        """Whether it may answer by itself, where the policy's ``read`` says for which questions."""
        ...

    @property
    def cross_encoder(self) -> str:
        """The name of the run's cross-encoder, by which an answer that it has read is told; "" where it has none."""
        ...

    async def record_choice(
        self, step: str, query: str, pool: Sequence[Hit], pick: Callable[[], Awaitable[list[Hit]]]
    ) -> list[Hit]:
        """What ``pick`` chooses from ``pool`` for ``query``, made durable before it is used.

        Two passes of a model may round differently and choose otherwise. On a resumed run the recorded choice from
        the same pool is returned, and ``pick`` is not called.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Unit vectors of the archive's dense model. Raises ConfigError when the archive has no vectors."""
        ...

    async def vectors(self, hits: Sequence[Hit]) -> list[list[float]]:
        """The unit vectors that the index holds for some retrieved chunks, in their order: nothing is embedded."""
        ...

    async def compress(self, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
        """The unit vectors that SARA's compressor makes of ``vectors`` (of ``embed`` or ``vectors``), to choose by.

        Raises ConfigError when the run has no compressor.
        """
        ...

    async def compressed(self, hits: Sequence[Hit]) -> list[TokenVectors]:
        """What stands for some retrieved chunks in a prompt: the rows of the archive's table of compressed chunks.

        Raises ArchiveError when the archive has no such table at their granularity.
        """
        ...

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        """Natural log-likelihood of each token of each text, read after ``prefix``, by a local language model.

        The tokens are that model's own. Raises ConfigError when the run has no such model.
        """
        ...

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Where each token that ``score`` measures ends, in characters of its text; a text too long for the model has
        more of them than scores. Raises ConfigError as ``score`` does.
        """
        ...

    async def keep(self, texts: Sequence[str]) -> list[list[WordKept]]:
        """The words of each text, in order, with the probability that each is kept, by the run's token classifier.

        Raises ConfigError when the run has none.
        """
        ...

    async def remember(self, step: str, asked: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """What ``make`` finds for ``asked``, made durable before it is used; both are values of JSON.

        For what a model on this side decides: two of its passes may round differently. On a resumed run what was found
        for the same ``asked`` is returned, and ``make`` is not called.
        """
        ...

    async def artifact(
        self, name: str, doc_id: str, branch: Branch, *, version: int = 0, roles: Sequence[str] = ()
    ) -> Any:
        """What ``branch`` makes of a document, a value of JSON: once for all questions of the run that need it.

        Its steps and its calls are kept as those of ``artifact/<name>/<doc_id>`` and not of this question; its tools
        have that document as their scope. With a ``version`` (of its prompts and of its form; raise it with either) it
        is also kept with the archive, and taken from there for nothing by every run over the same content with the
        same arguments and the same generator, whose longest replies of ``roles`` count too; but not where the branch
        remembers a step ``lacking``, with what stands in for replies of no use. Raises what the branch raises, and
        ConfigError where nothing can be kept.
        """
        ...

    async def documents(self) -> list[tuple[str, int]]:
        """``(doc_id, tokens)`` of every document in the scope, in order of doc_id; tokens are o200k_base."""
        ...

    async def full_text(self, doc_id: str) -> Document:
        """A whole document of the scope, with its tables."""
        ...

    async def gather(self, branches: Sequence[Branch]) -> list[Any]:
        """Run branches beside each other; results in the order of ``branches``. The first error is raised."""
        ...


Strategy = Callable[[Question, Tools], Awaitable[Answer]]
"""What a method is. Third parties add theirs by the entry point group ``okralong.strategies``."""
