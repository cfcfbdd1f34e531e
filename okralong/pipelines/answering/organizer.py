"""The organizer: a pure function that makes the plan from the analysis and the policy (paper section 3.4).

It makes three decisions. The workflow follows the question's type, the size and number of chunks follow the type and
the presence of evidence, and the weights of the two retrievers follow how the evidence is found. Each decision comes
with its reason in words, so that users see what they pay for.
"""

from __future__ import annotations

from okralong.pipelines.answering.languages import language_name
from okralong.pipelines.answering.policy import CONTEXTUAL_TYPES, SAME_WEIGHT, Policy, ScopePolicy
from okralong.pipelines.core.languages import ENGLISH
from okralong.pipelines.core.types import Analysis, Pattern, Plan, Usage, Workflow
from okralong.pipelines.core.wording import counted

_WORKFLOW_WORDS: dict[Workflow, str] = {
    "linear": "one retrieval, one answer",
    "extend": "one retrieval, each passage widened, one answer",
    "split": "a retrieval for each sub-question, one answer",
    "step": "reasoning and retrieval in turns",
    "documents": "each document by itself, one answer from their values",
}


def organize(analysis: Analysis | None, policy: Policy, *, precise: bool, language: str = ENGLISH) -> Plan:
    """Return the plan for a question with this analysis, in this language.

    Without an analysis, the plan is conservative: linear workflow, factoid scope, evidence assumed absent, equal
    weights. With ``precise``, the full text may be read after "unanswerable".
    """
    workflow, workflow_reason = _workflow(analysis, policy, language)
    scope, granularity, count, size_reason = _size(analysis, policy, workflow)
    pattern = None if analysis is None else analysis.pattern
    exact_weight, semantic_weight = fusion_weights(pattern or "same", policy)
    reasons = [
        workflow_reason,
        size_reason,
        f"{_pattern_words(pattern, policy)} → BM25 : dense {exact_weight:g} : {semantic_weight:g}",
    ]
    extension = policy.context.extension_tokens if workflow == "extend" else 0
    if extension:
        reasons.append(f"figures need their surroundings → each passage widened by up to {extension} tokens a side")
    elif workflow == "extend":
        reasons.append("context.extension_tokens is 0 → nothing is widened, as in linear")
    around = policy.fusion.surroundings
    if around is not None and around.granularity > granularity:
        reasons.append(
            f"small chunks say little by themselves → the {around.granularity} tokens around one count "
            f"{around.weight:g} in its score"
        )
    if scope.neighbours:
        reasons.append(f"its evidence runs on → a chunk's better neighbour counts {scope.neighbours:g} in its score")
    if precise:
        reasons.append('precise mode → the full text is read if the reply is "unanswerable"')
    again = policy.escalate
    if again is not None:
        how = "the stronger generator follows the plan" if again.to == "stronger" else "the full text is read"
        reasons.append(f"an answer of a confidence under {again.under:g} is not trusted → {how}")
    return Plan(
        workflow=workflow,
        granularity=granularity,
        count=count,
        candidates=policy.fusion.candidates,
        exact_weight=exact_weight,
        semantic_weight=semantic_weight,
        threshold=policy.fusion.threshold,
        extension_tokens=extension,
        recover_tables=policy.context.recover_tables,
        max_sub_questions=policy.split.max_sub_questions,
        sub_question_count=policy.split.count,
        max_steps=policy.step.max_steps,
        escalate=precise,
        reasons=tuple(reasons),
        max_tokens=scope.tokens,
        sub_question_tokens=policy.split.tokens,
        neighbour_weight=scope.neighbours,
        escalate_under=0.0 if again is None else again.under,
        escalate_to=None if again is None else again.to,
    )


def fusion_weights(pattern: Pattern, policy: Policy) -> tuple[float, float]:
    """Return the weights ``(exact, semantic)``: the preferred retriever's is larger; for "same" they are equal.

    If the policy uses only one retriever, that one has all the weight.
    """
    fusion = policy.fusion
    if fusion.only is not None:
        return (1.0, 0.0) if fusion.only == "exact" else (0.0, 1.0)
    if pattern == "exact":
        return fusion.preferred_weight, fusion.other_weight
    if pattern == "semantic":
        return fusion.other_weight, fusion.preferred_weight
    return SAME_WEIGHT, SAME_WEIGHT


def _workflow(analysis: Analysis | None, policy: Policy, language: str) -> tuple[Workflow, str]:
    if analysis is None and language != ENGLISH:
        told = f"the analyzer knows English, and the question is in {language_name(language)}"
        return "linear", f"{told} → linear: {_WORKFLOW_WORDS['linear']}"
    if analysis is None:
        return "linear", f"no analysis → linear: {_WORKFLOW_WORDS['linear']}"
    workflow = policy.workflow[analysis.type]
    return workflow, f"question is {analysis.type} → {workflow}: {_WORKFLOW_WORDS[workflow]}"


def _size(analysis: Analysis | None, policy: Policy, workflow: Workflow) -> tuple[ScopePolicy, int, int, str]:
    contextual = analysis is not None and analysis.type in CONTEXTUAL_TYPES
    scope = policy.contextual if contextual else policy.factoid
    present = analysis is not None and bool(analysis.evidence)
    granularity = scope.granularity_present if present else scope.granularity_absent
    kind = "contextual" if contextual else "factoid"
    where = "evidence in the primary chunks" if present else "evidence not in the primary chunks"
    if scope.granularity_present == scope.granularity_absent:
        where = "whether or not the primary chunks have the evidence"
    count = policy.step.count or scope.count if workflow == "step" else scope.count
    size = f"{counted(count, 'chunk')} of {granularity} tokens"
    if scope.tokens is not None:
        size += f", {scope.tokens} tokens at most"
    return scope, granularity, count, f"{where} → {size} ({kind})"


def _pattern_words(pattern: Pattern | None, policy: Policy) -> str:
    if not policy.uses_pattern:
        return "however evidence is found"
    if pattern is None:
        return "evidence of unknown pattern"
    return f"evidence found by {'exact and semantic match alike' if pattern == 'same' else f'{pattern} match'}"


def plain_plan(
    granularity: int,
    count: int,
    reason: str,
    *,
    workflow: Workflow = "linear",
    max_steps: int = 0,
    most: Usage | None = None,
) -> Plan:
    """Return a plan for a baseline that makes none itself, so that the budget and the output have one.

    Args:
        granularity: Tokens per chunk.
        count: Number of chunks to retrieve by dense vectors.
        reason: The reason that the plan shows.
        workflow: The workflow that the plan shows.
        max_steps: The number of steps that the plan shows.
        most: The most tokens that the method can use, which the budget reserves.
    """
    return Plan(
        workflow=workflow,
        granularity=granularity,
        count=count,
        candidates=count,
        exact_weight=0.0,
        semantic_weight=1.0,
        threshold=0.0,
        extension_tokens=0,
        recover_tables=False,
        max_sub_questions=1,
        sub_question_count=0,
        max_steps=max_steps,
        escalate=False,
        reasons=(reason,),
        most=most,
    )
