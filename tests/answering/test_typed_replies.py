"""Typed questions: what their prompt asks for, what is read from replies, the one repair of one that misfits."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import pytest

from okralong.pipelines.answering.answer_types import AnswerType
from okralong.pipelines.answering.grammars import grammar
from okralong.pipelines.answering.prompt_text import Evidence
from okralong.pipelines.answering.prompts import answer_prompt, demonstrations, read_typed, with_demonstration
from okralong.pipelines.core.types import Answer, Document, Passage, Question, ReplyError
from okralong.pipelines.methods.registry import load_strategy
from tests.fakes.tools import Scripted, ScriptedTools, analysis

TABLE = """Alder annual report

Consolidated statements of income (in thousands of U.S. dollars)
| | 2023 | 2022 |
| Revenue | $ 467,460 | $ 431,002 |
| Net income (loss) | $ (234,495) | $ 12,010 |
"""
ALDER = Document("alder", TABLE, "Alder", sha256="alder", n_tokens=80)
PASSAGE = Passage("alder", 0, len(TABLE), TABLE, 80, 1.0)
SCHEMA = {"type": "object", "properties": {"buyer": {"type": "string"}}, "required": ["buyer"]}
REVENUE = {
    "evidence": [{"passage": 1, "quote": "Revenue | $ 467,460"}],
    "value": "$ 467,460 thousand",
    "period": "2023",
}


async def ask(
    answer_type: str,
    *replies: Scripted,
    short: bool = False,
    strategy: str = "okralong",
    calculator: bool = False,
    document: Document = ALDER,
) -> Any:
    tools = ScriptedTools(
        [document],
        {"generate": list(replies), "full_text": list(replies)},
        analysis=analysis("extractive", "exact"),
        short_contract=short,
        calculator=calculator,
        answer_type=answer_type,
    )
    answer = await load_strategy(strategy)(Question("q", "What was the revenue?", answer_type=answer_type), tools)
    return answer, tools


def test_a_question_without_a_type_is_asked_as_ever() -> None:
    for short in (False, True):
        plain = answer_prompt("Who?", [PASSAGE], short=short)
        assert plain == answer_prompt("Who?", [PASSAGE], short=short, wanted=AnswerType.of("text"))
        assert "JSON" not in plain[0].content
        assert plain[1].content.endswith("\n\nQuestion: Who?")


def test_questions_of_all_types_share_what_stands_before_the_question() -> None:
    kinds = ("number", "money", "percent", "date", "period", "boolean", 'choices ["up", "down"]', "list of money")
    prompts = [answer_prompt("How?", [PASSAGE], wanted=AnswerType.of(kind)) for kind in kinds]
    assert len({each[0].content for each in prompts}) == 1
    assert len({each[1].content.partition("Question: ")[0] for each in prompts}) == 1
    ends = {kind: each[1].content.rpartition("Question: ")[2] for kind, each in zip(kinds, prompts, strict=True)}
    assert len(set(ends.values())) == len(kinds)
    assert '"up", "down"' in ends['choices ["up", "down"]']
    assert "scale" in ends["money"]
    assert '"period"' in ends["money"]
    assert '"period"' not in ends["date"]
    schema = answer_prompt("Who?", [PASSAGE], short=True, wanted=AnswerType.of(json.dumps(SCHEMA)))
    assert json.dumps(SCHEMA) in schema[1].content
    assert "JSON object" in schema[0].content, "the short contract has no form for a schema"


@pytest.mark.parametrize("short", [False, True])
def test_the_worked_example_is_of_the_same_contract(short: bool) -> None:
    wanted = AnswerType.of("money")
    shown = with_demonstration(
        answer_prompt("How much?", [PASSAGE], short=short, wanted=wanted), "generate", short, wanted
    )
    (said,) = read_typed(shown[2].content, wanted)
    assert (said.said, said.evidence[0].passage) == ("310 boats", 1)
    assert ("{" in shown[2].content) is not short
    assert demonstrations(short)["split"] == demonstrations(short, wanted)["split"]


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        (json.dumps(REVENUE), [("$ 467,460 thousand", "2023", (Evidence(1, "Revenue | $ 467,460"),))]),
        (f"<think>hm</think>Sure:\n```json\n{json.dumps(REVENUE)}\n```", [("$ 467,460 thousand", "2023", None)]),
        ('{"value": 467460.5, "evidence": [1]}', [("467460.5", "", (Evidence(1, ""),))]),
        ('{"answer": "5 %", "evidence": "[2] \\"a rate of 5 %\\""}', [("5 %", "", (Evidence(2, "a rate of 5 %"),))]),
        ('{"value": true}', [("yes", "", ())]),
        ('Evidence: [1] "Revenue"\nAnswer: $5', [("$5", "", (Evidence(1, "Revenue"),))]),
        ("$5 [1]", [("$5", "", (Evidence(1, ""),))]),
        ('{"evidence": [], "value": null}', []),
        ('{"values": []}', []),
        ('{"value": "unanswerable"}', []),
        ("Answer: unanswerable", []),
        ("unanswerable", []),
    ],
)
def test_what_is_read_from_a_reply(reply: str, values: list[Any]) -> None:
    found = read_typed(reply, AnswerType.of("money"))
    assert [(each.said, each.period) for each in found] == [each[:2] for each in values]
    for each, (_, _, evidence) in zip(found, values, strict=True):
        assert evidence is None or each.evidence == evidence


@pytest.mark.parametrize(
    "reply",
    [
        '{"evidence": [{"passage": 1, "quo',
        '{"evidence": [{"passage": 1, "quote": "Revenue | $ 467,460"}], "val',
        'Sure: {"evidence": [{"passage": 1, "quote": "$ 467,460"}], "value": "$ 467',
        "{",
    ],
)
def test_json_that_ends_too_early_is_no_answer(reply: str) -> None:
    with pytest.raises(ReplyError):
        read_typed(reply, AnswerType.of("money"))


def test_values_of_a_list_have_evidence_each_and_a_schema_may_stand_alone() -> None:
    many = AnswerType.of("list of number")
    both = {"values": [{"value": "1", "evidence": [{"passage": 1, "quote": "one"}]}, {"value": 2, "evidence": [2]}]}
    found = read_typed(json.dumps(both), many)
    assert [(each.said, each.evidence) for each in found] == [("1", (Evidence(1, "one"),)), ("2", (Evidence(2, ""),))]
    shared = read_typed('{"value": ["1", "2"], "evidence": [3]}', many)
    assert [(each.said, each.evidence) for each in shared] == [("1", (Evidence(3, ""),)), ("2", (Evidence(3, ""),))]
    assert [each.said for each in read_typed("1; 2 [1]", many)] == ["1", "2"]
    schema = AnswerType.of(json.dumps(SCHEMA))
    for reply in ('{"value": {"buyer": "Birch"}, "evidence": [1]}', '{"buyer": "Birch"}'):
        assert [json.loads(each.said) for each in read_typed(reply, schema)] == [{"buyer": "Birch"}]
    assert read_typed("unanswerable", schema) == []
    with pytest.raises(ReplyError, match="no whole JSON object"):
        read_typed("Birch bought it [1]", schema)


@pytest.mark.parametrize(("strategy", "step"), [("okralong", "generate"), ("long_context", "full_text/generate")])
async def test_a_typed_reply_has_its_value_and_its_sources(strategy: str, step: str) -> None:
    answer, tools = await ask("money", json.dumps(REVENUE), strategy=strategy)
    assert (answer.status, answer.answer, answer.error) == ("answered", "$ 467,460 thousand", "")
    assert (answer.value.value, answer.value.scale, answer.value.currency) == ("467460000", "thousand", "USD")
    assert answer.value.period == "2023"
    (citation,) = answer.citations
    assert TABLE[citation.start_char : citation.end_char] == "Revenue | $ 467,460"
    (call,) = tools.of("complete")
    assert (call.step, call.details["answer_type"]) == (step, "money")


async def test_a_value_without_its_scale_takes_it_from_the_passage() -> None:
    loss = {"evidence": [{"passage": 1, "quote": "$ (234,495)"}], "value": "$ (234,495)"}
    answer, _ = await ask("money", json.dumps(loss))
    assert (answer.value.value, answer.value.period) == ("-234495000", "2023")
    plain, _ = await ask("money", "$ (234,495) [1]", short=True)
    assert plain.value == answer.value
    assert plain.citations, "the line of the passage that says so"


async def test_a_list_has_the_citations_of_all_its_values() -> None:
    second = {"evidence": [{"passage": 1, "quote": "$ 431,002"}], "value": "$ 431,002"}
    answer, _ = await ask("list of money", json.dumps({"values": [REVENUE, second]}))
    assert [each["value"] for each in json.loads(answer.value.value)] == ["467460000", "431002000"]
    assert [each["period"] for each in json.loads(answer.value.value)] == ["2023", "2022"]
    assert [each.quote for each in answer.citations] == [
        "Revenue | $ 467,460",
        "| Revenue | $ 467,460 | $ 431,002 |",
    ]


async def test_a_reply_that_misfits_is_asked_for_once_more() -> None:
    answer, tools = await ask("money", '{"value": "a lot"}', json.dumps(REVENUE))
    assert (answer.status, answer.value.value) == ("answered", "467460000")
    assert [path for tool, path in tools.steps() if tool == "complete"] == ["generate", "generate/repair"]
    shown = tools.prompt("generate/repair")
    assert '{"value": "a lot"}' in shown
    assert "one amount of money was asked for, and there is none in it" in shown
    assert tools.of("complete")[1].details["answer_type"] == "money"


async def test_a_small_model_that_repeats_the_example_of_its_contract_has_not_answered() -> None:
    copied = 'What is the value of the following string?\n"987,654 thousand"'
    answer, tools = await ask("money", copied, "$ 467,460 [1]", short=True)
    assert answer.value.value == "467460000"
    assert "987,654 thousand stands in no passage" in tools.prompt("generate/repair")
    again, _ = await ask("money", copied, copied, short=True)
    assert (again.status, again.value) == ("invalid_output", None)
    period, _ = await ask("period", "FY2019", "2023 [1]", short=True)
    assert period.value.value == "2023"


async def test_a_small_model_that_repeats_its_instructions_has_not_answered() -> None:
    said = "What is it?\nThe value must be a string with one number as the passage writes it, with its sign"
    answer, tools = await ask("number", json.dumps({"value": said, "evidence": [1]}), json.dumps({"value": said}))
    assert (answer.status, answer.value) == ("invalid_output", None)
    assert "it repeats the prompt" in answer.error
    assert "it repeats the prompt" in tools.prompt("generate/repair")


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(
    ("answer_type", "said"),
    [("money", "$ 99,123 thousand"), ("money", "$(234,496) thousand"), ("percent", "12.4 %"), ("date", "2019-06-30")],
)
async def test_a_value_that_stands_in_no_passage_is_no_answer(answer_type: str, said: str, short: bool) -> None:
    reply = f"{said} [1]" if short else json.dumps({"value": said, "evidence": [{"passage": 1, "quote": "Revenue"}]})
    answer, tools = await ask(answer_type, reply, short=short)
    assert (answer.status, answer.value, answer.citations) == ("invalid_output", None, ())
    assert "stands in no passage" in answer.error
    assert reply in answer.error
    assert len(tools.of("complete")) == 2


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("467,460", "467460000"),
        ("$467.46 million", "467460000"),
        ("$467.5 million", "467500000"),
        ("467460000", "467460000"),
        ("0.46746 billion dollars", "467460000"),
        ("-234,495", "-234495000"),
        ("a loss of $234.495 million", "234495000"),
    ],
)
async def test_an_amount_in_another_notation_stands_there(said: str, value: str) -> None:
    answer, _ = await ask("money", json.dumps({"value": said, "evidence": [1]}))
    assert (answer.status, answer.value.value) == ("answered", value)
    (citation,) = answer.citations
    assert citation.quote.startswith("| Net income" if "234" in said else "| Revenue")


async def test_the_result_of_a_calculation_needs_operands_in_the_passages() -> None:
    both = {"passage": 1, "quote": "Revenue | $ 467,460 | $ 431,002"}
    for value in ("$ 36,458 thousand", "$898,462 thousand"):
        answer, _ = await ask("money", json.dumps({"value": value, "evidence": [both]}))
        assert answer.status == "answered", value
    grown, _ = await ask("percent", json.dumps({"value": "8.5 %", "evidence": [both]}))
    assert (grown.value.value, [each.quote for each in grown.citations]) == ("8.5", [])
    wrong, _ = await ask("percent", json.dumps({"value": "9.5 %", "evidence": [both]}))
    assert wrong.status == "invalid_output"
    unquoted, _ = await ask("money", json.dumps({"value": "$ 36,458 thousand"}))
    assert unquoted.status == "invalid_output"


async def test_a_formula_needs_its_operands_in_the_passages() -> None:
    grown = {"value": "=(467,460 - 431,002) / 431,002 * 100 %", "evidence": [{"passage": 1, "quote": "Revenue"}]}
    answer, _ = await ask("percent", json.dumps(grown), calculator=True)
    assert (answer.status, answer.value.value) == ("answered", "8.46")
    assert [each.quote for each in answer.citations] == ["| Revenue | $ 467,460 | $ 431,002 |"]
    answer, _ = await ask("percent", json.dumps(grown | {"value": "=(467,460 - 999) / 999 * 100 %"}), calculator=True)
    assert "999 in the calculation stands in no passage" in answer.error


async def test_a_period_that_no_passage_names_is_not_that_of_an_amount() -> None:
    bare = Document("birch", "The price was $ 512.", "Birch", sha256="birch", n_tokens=8)
    for period, kept in (("FY2023", ""), ("", "")):
        reply = {"value": "$ 512", "period": period, "evidence": [1]}
        answer, _ = await ask("money", json.dumps(reply), document=bare)
        assert answer.value.period == kept


async def test_a_second_misfit_is_invalid_output_with_both_replies() -> None:
    answer, tools = await ask("date", "Answer: soon", '{"value": "later"}')
    assert isinstance(answer, Answer)
    assert (answer.status, answer.answer, answer.value, answer.citations) == ("invalid_output", "", None, ())
    assert answer.error.startswith("The reply does not fit the answer_type date: one date was asked for")
    assert 'Answer: soon\n--- asked once more ---\n{"value": "later"}' in answer.error
    assert answer.context, "what was shown"
    assert len(tools.of("complete")) == 2


async def test_an_empty_reply_fails_and_does_not_count_as_a_misfit() -> None:
    with pytest.raises(ReplyError, match="asked for once more"):
        await ask("date", "", "")


async def test_the_answer_of_a_reasoning_step_is_a_value_or_is_asked_for_as_one() -> None:
    for said, steps in (("$ 467,460 thousand", 1), ("much", 2)):
        scripted: dict[str, list[Scripted]] = {
            "step": [f"Evidence: none\nQuery: none\nAnswer: {said}"],
            "generate": [json.dumps(REVENUE)],
        }
        tools = ScriptedTools([ALDER], scripted, analysis=analysis("multi-bridge"), answer_type="money")
        answer = await load_strategy("okralong")(Question("q", "What revenue?", answer_type="money"), tools)
        assert answer.value is not None
        assert answer.value.value == "467460000"
        assert len(tools.of("complete")) == steps


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\{\d+,\d+\}|[|()?*+]|[\w-]+')


def as_regex(grammar_text: str) -> re.Pattern[str]:
    """A grammar whose rules call no rule again, as one pattern."""
    rules = dict(line.split(" ::= ", 1) for line in grammar_text.strip().splitlines())

    @functools.cache
    def expanded(name: str) -> str:
        parts = []
        for token in _TOKEN.findall(rules[name]):
            if token.startswith('"'):
                parts.append(f"(?:{re.escape(json.loads(token))})")
            else:
                parts.append(f"(?:{expanded(token)})" if token in rules else token)
        return "".join(parts)

    return re.compile(expanded("root"), re.DOTALL)


def allowed(answer_type: str, short: bool) -> re.Pattern[str]:
    """What the grammar of a type lets a model reply about one passage."""
    text = 'It sold for $ 5,000 in 2023, or 12 %: "a \\ b".'
    wanted = AnswerType.of(answer_type)
    prompt = answer_prompt("How?", [Passage("d", 0, len(text), text, 9, 1.0)], short=short, wanted=wanted)
    rules = grammar("generate", prompt, answer_type, short)
    assert rules is not None
    return as_regex(rules)


EMPTY = '{"evidence": [], "value": null}'
QUOTED = '{"evidence": [{"passage": 1, "quote": "sold for $ 5,000"}, {"passage": 1, "quote": "a \\\\ b"}], "value": '


@pytest.mark.parametrize(
    ("answer_type", "short", "good", "bad"),
    [
        ("money", True, ["$ 5,000 [1]", "unanswerable"], ["$5,000 [1]", "$ 5,000", "much [1]", "12 % [1]"]),
        ("percent", True, ["12 % [1]"], ["5,000 [1]"]),
        ("period", True, ["2023 [1]"], ["5,000 [1]"]),
        ("boolean", True, ["yes [1]", "no [12]"], ["yes", "maybe [1]"]),
        ('list of choices ["up", "down"]', True, ["up [1]", "up [1]; down [2]"], ["up; down [1]", "left [1]"]),
        (
            "money",
            False,
            [EMPTY, f'{QUOTED}"$ 5,000", "period": ""}}'],
            [f'{QUOTED}"$ 5,000"}}', f"{QUOTED}null}}", f'{QUOTED}"$5", "period": ""}}'],
        ),
        ("percent", False, [f'{QUOTED}"12 %", "period": "2023"}}'], [f'{QUOTED}"=5000 * 2 %", "period": ""}}']),
        ("date", False, [f'{QUOTED}"2023"}}'], [f'{QUOTED}"2023", "period": ""}}', "2023"]),
        ("boolean", False, [f'{QUOTED}"no"}}'], [f'{QUOTED}"maybe"}}', f"{QUOTED}true}}"]),
        (
            "list of date",
            False,
            ['{"values": []}', f'{{"values": [{QUOTED}"2023"}}, {QUOTED}"2023"}}]}}'],
            [EMPTY, f'{{"values": [{QUOTED}"x"}}]}}'],
        ),
        ("date", False, [], [f'{QUOTED.replace("sold for", "bought at")}"2023"}}']),
    ],
)
def test_the_grammar_of_a_type_allows_its_replies_alone(
    answer_type: str, short: bool, good: list[str], bad: list[str]
) -> None:
    pattern = allowed(answer_type, short)
    for reply in good:
        assert pattern.fullmatch(reply), reply
        said = read_typed(reply, AnswerType.of(answer_type))
        assert all(each.evidence for each in said)
    assert [reply for reply in bad if pattern.fullmatch(reply)] == []


@pytest.mark.parametrize("short", [False, True])
def test_the_grammar_allows_formulas_where_the_prompt_asks_for_them(short: bool) -> None:
    wanted = AnswerType.of("percent")
    prompt = answer_prompt("How much?", [PASSAGE], calculator=True, short=short, wanted=wanted)
    pattern = as_regex(grammar("generate", prompt, "percent", short) or "")
    said = "=(467,460 - 431,002) / 431,002 * 100 %"
    assert pattern.fullmatch(f"{said} [1]" if short else f'{{"evidence": [], "value": "{said}", "period": "2023"}}')


@pytest.mark.parametrize(
    ("answer_type", "short", "nothing"),
    [("money", True, "unanswerable"), ("date", False, EMPTY), ("list of percent", False, '{"values": []}')],
)
def test_without_a_value_in_the_passages_the_grammar_allows_no_answer(
    answer_type: str, short: bool, nothing: str
) -> None:
    prompt = answer_prompt("How?", [Passage("d", 0, 4, "None", 9, 1.0)], short=short, wanted=AnswerType.of(answer_type))
    pattern = as_regex(grammar("generate", prompt, answer_type, short) or "")
    assert pattern.fullmatch(nothing)
    assert not pattern.fullmatch(nothing + " ")
    assert "|" not in pattern.pattern


def test_a_schema_has_no_grammar_of_ours() -> None:
    assert grammar("generate", answer_prompt("Who?", [PASSAGE]), json.dumps(SCHEMA)) is None
