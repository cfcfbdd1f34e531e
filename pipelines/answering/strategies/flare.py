"""FLARE (Jiang et al. 2023, section 3.2), direct, with implicit queries: the generator writes an answer sentence by
sentence; one that it is not sure of is looked up, without the words that it doubts, and written again.

Steps of the paper: look up the question; write a temporary next sentence; where a token of it is less likely than
``threshold``, use the sentence without its tokens below ``mask_below`` as the query, and write it anew from what that
finds; go on until the sentence that concludes. The values are those of the authors' config for 2WikiMultihopQA
(``configs/2wikihop_flare_config.json``: 0.8, 0.4, look-ahead of 64 tokens, cut at the sentence).

Where this differs from the paper:

- Five dense chunks of 512 tokens a look-up, as OkraLong's authors ran it (their section 4.2); the paper's: two
  passages of BM25 or of a search engine.
- A chat model, asked for one sentence at a time; the paper's text-davinci-003 completes a text. So each sentence is a
  call of its own.
- The temporary sentence is written with the passages found last in view, as the authors' code does; the paper's text
  has it written without any.
- At most ``max_sentences`` (ours) in place of a total of 256 tokens, a sentence that repeats an earlier one ends the
  answer, and without a conclusion the whole chain is the answer.
- Nothing is cited: the sentences name no passage.
"""

from __future__ import annotations

from typing import Final

from okralong.pipelines.answering.generate import calculate
from okralong.pipelines.answering.operators.sentence import Sentence, write_sentence
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.prompts import UNANSWERABLE, says_unanswerable
from okralong.pipelines.answering.strategies.plain import most_of, plain_plan
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.types import Answer, Hit, Plan, Question

UNFORESEEN: Final = "how sure the generator is of each sentence decides how often it retrieves and asks"
NEEDS_LOGPROBS: Final = True


def granularities(policy: Policy) -> list[int]:
    """The chunk size that the archive must hold."""
    return [policy.flare.granularity]


async def answer(question: Question, tools: Tools) -> Answer:
    """Steps: ``plan``, ``retrieve``, then ``sentence/1/look_ahead`` and, where it is doubtful, ``sentence/1/retrieve``
    and ``sentence/1/write`` onward.
    """
    policy, words = tools.policy.flare, question.question
    plan = await tools.record_plan("plan", _plan(tools))

    async def look_up(step: str, query: str) -> list[Hit]:
        found = await tools.retrieve(step, query, granularity=plan.granularity, k=plan.count)
        return list(found.semantic[: plan.count])

    hits = await look_up("retrieve", words)
    said: list[Sentence] = []
    for number in range(1, plan.max_steps + 1):
        step, before = f"sentence/{number}", [sentence.text for sentence in said]
        sentence = await write_sentence(tools, f"{step}/look_ahead", words, hits, before, logprobs=True)
        if sentence.confidence < policy.threshold:
            hits = await look_up(f"{step}/retrieve", sentence.without_doubtful(policy.mask_below))
            sentence = await write_sentence(tools, f"{step}/write", words, hits, before, logprobs=True)
        if sentence.text in before:
            break
        said.append(sentence)
        if sentence.conclusion is not None:
            break
    text = said[-1].conclusion or " ".join(sentence.text for sentence in said)
    if says_unanswerable(text):
        return Answer("unanswerable", UNANSWERABLE, plan=plan, context=said[-1].shown)
    return Answer("answered", calculate(text) if tools.calculator else text, plan=plan, context=said[-1].shown)


def _plan(tools: Tools) -> Plan:
    policy = tools.policy.flare
    shown, sentence = policy.granularity * policy.count, tools.completion_limit("sentence")
    twice = [("sentence", shown + number * sentence) for number in range(policy.max_sentences) for _ in range(2)]
    reason = (
        f"FLARE: {policy.count} dense chunks, looked up anew for each sentence with a token below {policy.threshold}"
    )
    return plain_plan(
        policy.granularity,
        policy.count,
        reason,
        workflow="step",
        max_steps=policy.max_sentences,
        most=most_of(tools, twice),
    )
