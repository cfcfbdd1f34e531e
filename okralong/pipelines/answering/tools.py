"""The tools of a strategy: the only interface between a method and the run that executes it.

A strategy is an async function ``answer(question, tools) -> Answer``. It uses documents, retrievers, analyzer and
generator only through ``Tools``. Every call names a ``step``; the journal stores its result under the step path
(``split/2/retrieve``), so that a run resumed after a kill repeats nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from okralong.pipelines.answering.confidence_model import ConfidenceModel
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
"""The step path of an escalation."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A part of a question's work that runs concurrently with other branches, possibly in another process.

    Attributes:
        path: The path of its steps, such as "split/2".
        operator: A module-level async function, called as ``operator(tools, **arguments)``.
        arguments: JSON values, as is the result: both may be sent to another process.
        doc_ids: Its scope, a part of the question's; empty for the same scope.
        answer_type: The type of its answers; None for the question's answer type.
    """

    path: str
    operator: Callable[..., Awaitable[Any]]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    doc_ids: tuple[str, ...] = ()
    answer_type: str | None = None

    def posed(self, question: Question, doc_ids: tuple[str, ...]) -> tuple[Question, tuple[str, ...]]:
        """Return the branch's question and scope, given those of the question that it belongs to."""
        if self.answer_type is not None:
            question = replace(question, answer_type=self.answer_type)
        return question, self.doc_ids or doc_ids


LACKING: Final = "lacking"
"""The step of an artifact that records the steps with unusable replies (see ``note_lacking``)."""


async def note_lacking(tools: Tools, steps: Sequence[str]) -> None:
    """Record the steps of an artifact in which a placeholder replaces an unusable reply.

    The artifact is then not kept in the archive, so that later runs make it again.
    """

    async def said() -> list[str]:
        return sorted(steps)

    if steps:
        await tools.remember(LACKING, {}, said)


class Retriever(Protocol):
    """The part of ``Tools`` that retrieval needs."""

    @property
    def policy(self) -> Policy:
        """The run's constants."""
        ...

    async def retrieve(
        self, step: str, query: str, *, granularity: int, k: int, doc_ids: Sequence[str] = ()
    ) -> Candidates:
        """Return the top ``k`` chunks of the question's scope for each retriever.

        There are fewer if the scope is smaller, and no semantic ones if the archive has no vectors. ``doc_ids`` narrows
        the scope for this look-up. Raises QuestionError if the scope names no document.
        """
        ...

    @property
    def scope_size(self) -> int:
        """Number of documents in the question's scope."""
        ...

    def named(self, query: str) -> dict[str, float]:
        """Return the documents of the scope that ``query`` names, each with a share of 0 to 1 (see ``DocumentNames``).

        The result is empty if the scope has one document.
        """
        ...

    async def read(self, step: str, query: str, passages: Sequence[str]) -> list[Reading]:
        """Return the cross-encoder's reading of each of ``passages`` (at least one) for ``query``, in their order.

        The readings are made durable before use, because a second pass may round differently. Raises ConfigError if the
        run has no cross-encoder.
        """
        ...


class Tools(Retriever, Protocol):
    """The tools of one question; they know its scope and its step path."""

    @property
    def window(self) -> int:
        """Tokens of the generator's window, prompt and reply together, in its own vocabulary."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text`` in the generator's vocabulary."""
        ...

    def completion_limit(self, role: str) -> int:
        """Return the most completion tokens of a call of ``role``."""
        ...

    @property
    def calculator(self) -> bool:
        """True if the generator answers calculations with formulas, which code evaluates (``calculator.py``)."""
        ...

    @property
    def short_contract(self) -> bool:
        """True if prompts use the short contract: the answer, then the number of a passage."""
        ...

    @property
    def quotes(self) -> bool:
        """True if the generator is the embedded model as shipped, and the question is in another language than English.

        Such a model knows English alone, so that a sentence of the passages answers in its place.
        """
        ...

    @property
    def language(self) -> str:
        """The language of the question, as a code of ISO 639-1."""
        ...

    async def analyze(
        self, step: str, question: str, chunks: Sequence[Hit], scores: RetrieverScores = NO_SCORES
    ) -> Analysis | None:
        """Analyze a question with its primary chunks and the scores that the retrievers gave.

        None if the analyzer was not trained on the question's language.
        """
        ...

    async def record_plan(self, step: str, plan: Plan) -> Plan:
        """Make a plan durable before anything is spent on it, and reserve its budget.

        Returns the plan to follow. In a resumed run this is the plan recorded before. Raises OverBudget.
        """
        ...

    @property
    def answer_type(self) -> str:
        """The written form of the question's answer type (see ``AnswerType``); "" for text."""
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
        """Call the generator.

        Args:
            step: Name of the call.
            messages: The prompt.
            role: A key of ``llm.max_completion_tokens``; sets the completion limit.
            logprobs: Whether the reply needs the log-probabilities of its tokens.
            answer_type: The type that the prompt asks for. Endpoints that support constraints are constrained to its
                form.
            longer: Whether to allow several times the completion limit, if the window has room.

        Raises:
            OverBudget: The budget has no room for the call.
            EndpointError: The endpoint cannot be used; the run stops.
            CallFailed: No reply arrived; the question fails.
            ReplyError: The reply is unusable. It is in the journal; ``citations.ask_for`` repeats the call once.
        """
        ...

    @property
    def generator(self) -> str:
        """The generator's name, as the config has it."""
        ...

    @property
    def stronger(self) -> Tools:
        """The question's tools with the run's stronger generator (``llm.stronger``). The cross-encoder does not answer.

        Their steps are below ``escalated``. Raises ConfigError if the run has no stronger generator.
        """
        ...

    @property
    def reads(self) -> bool:
        """True if the run has a cross-encoder that returns the span of an answer."""
        ...

    @property
    def confidence(self) -> ConfidenceModel | None:
        """The model that estimates how probably answers are right; None if nothing does."""
        ...

    @property
    def reads_answers(self) -> bool:
        """True if the cross-encoder may answer questions without the generator; the policy's ``read`` lists which."""
        ...

    @property
    def cross_encoder(self) -> str:
        """The name of the run's cross-encoder, which marks the answers that it read; "" if there is none."""
        ...

    async def record_choice(
        self, step: str, query: str, pool: Sequence[Hit], pick: Callable[[], Awaitable[list[Hit]]]
    ) -> list[Hit]:
        """Return the choice of ``pick`` from ``pool`` for ``query``, made durable before use.

        In a resumed run the recorded choice from the same pool is returned and ``pick`` is not called, because a second
        pass of a model may round differently.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return unit vectors of the archive's dense model. Raises ConfigError if the archive has no vectors."""
        ...

    async def vectors(self, hits: Sequence[Hit]) -> list[list[float]]:
        """Return the unit vectors of retrieved chunks from the index, in their order, without embedding them again."""
        ...

    async def compress(self, vectors: Sequence[Sequence[float]]) -> list[list[float]]:
        """Map ``vectors`` (of ``embed`` or ``vectors``) to unit vectors of SARA's compressor, for selection.

        Raises ConfigError if the run has no compressor.
        """
        ...

    async def compressed(self, hits: Sequence[Hit]) -> list[TokenVectors]:
        """Return the vectors that replace retrieved chunks in a prompt, from the archive's compressed chunks.

        Raises ArchiveError if the archive has no compressed chunks of their size.
        """
        ...

    async def score(self, prefix: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the natural log-likelihood of each token of each text after ``prefix``, by a local language model.

        The tokens are those of that model. Raises ConfigError if the run has no such model.
        """
        ...

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """Return where each token that ``score`` measures ends, in characters of its text.

        A text that is too long for the model has more tokens than ``score`` returns. Raises ConfigError as ``score``
        does.
        """
        ...

    async def keep(self, texts: Sequence[str]) -> list[list[WordKept]]:
        """Return the words of each text, in order, each with the token classifier's probability of keeping it.

        Raises ConfigError if the run has no token classifier.
        """
        ...

    async def remember(self, step: str, asked: Any, make: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of ``make`` for ``asked``, made durable before use; both are JSON values.

        This is for decisions of local models, whose passes may round differently. In a resumed run, the result recorded
        for the same ``asked`` is returned and ``make`` is not called.
        """
        ...

    async def artifact(
        self, name: str, doc_id: str, branch: Branch, *, version: int = 0, roles: Sequence[str] = ()
    ) -> Any:
        """Return the result of ``branch`` for a document, a JSON value that is computed once per run.

        Its steps and calls are recorded under ``artifact/<name>/<doc_id>`` instead of this question, and the scope of
        its tools is that document.

        With a ``version`` the artifact is also kept in the archive, and later runs over the same content, with the same
        arguments and generator, reuse it for free. Increase ``version`` when the prompts or the form change. A change
        of the reply limits of ``roles`` counts as another generator. An artifact with unusable replies
        (``note_lacking``) is not kept.

        Raises whatever the branch raises, and ConfigError outside a run.
        """
        ...

    async def documents(self) -> list[tuple[str, int]]:
        """Return ``(doc_id, tokens)`` of every document in the scope, in order of doc_id; tokens are o200k_base."""
        ...

    async def full_text(self, doc_id: str) -> Document:
        """Return a whole document of the scope, with its tables."""
        ...

    async def gather(self, branches: Sequence[Branch]) -> list[Any]:
        """Run branches concurrently and return their results in order. Raises the first error."""
        ...


Strategy = Callable[[Question, Tools], Awaitable[Answer]]
"""The type of a method's function. Third parties add methods through the entry point group ``okralong.strategies``."""
