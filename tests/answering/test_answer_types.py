"""How a question says of which type its answer must be, and what each bad type is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from okralong.pipelines.answering.answer_types import TEXT, AnswerType, slow_schema_reason, with_value
from okralong.pipelines.core.types import Answer, Citation, Passage, QuestionError
from okralong.pipelines.run.questions import question_row, read_questions


class Sale(BaseModel):
    buyer: str
    price: float


SCHEMA = {"type": "object", "properties": {"buyer": {"type": "string"}}, "required": ["buyer"]}


@pytest.mark.parametrize(
    ("cells", "written"),
    [
        ({}, ""),
        ({"answer_type": "Text"}, ""),
        ({"answer_type": "money"}, "money"),
        ({"answer_type": "Boolean"}, "boolean"),
        ({"answer_type": "list of dates"[:-1]}, "list of date"),
        ({"answer_type": "list[percent]"}, "list of percent"),
        ({"answer_type": "list"}, "list of text"),
        ({"choices": "rose; fell"}, 'choices ["rose", "fell"]'),
        ({"answer_type": "choices", "choices": ["a", "b", "a"]}, 'choices ["a", "b"]'),
        ({"answer_type": ["a", "b"]}, 'choices ["a", "b"]'),
        ({"answer_type": 'choices ["a", "b"]'}, 'choices ["a", "b"]'),
        ({"answer_type": "list of choices", "choices": "a;b"}, 'list of choices ["a", "b"]'),
        ({"answer_type": SCHEMA}, json.dumps(SCHEMA)),
        ({"answer_type": json.dumps(SCHEMA)}, json.dumps(SCHEMA)),
        ({"answer_type": bool}, "boolean"),
        ({"answer_type": list[float]}, "list of number"),
    ],
)
def test_types_have_one_written_form(cells: dict[str, Any], written: str) -> None:
    (question,), bad = read_questions([{"question": "What?", **cells}])
    assert (question.answer_type, bad) == (written, [])
    assert str(AnswerType.of(written)) == written
    assert read_questions([question_row(question)])[0] == [question]


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef"])
def test_a_schema_that_refers_to_another_document_is_refused(name: str) -> None:
    far = {"type": "object", "properties": {"buyer": {name: "file:///etc/hostname"}}}
    (_, bad) = read_questions([{"question": "Who?", "answer_type": "text"}, {"question": "Who?", "answer_type": far}])
    assert "to another document" in bad[0].message
    with pytest.raises(QuestionError, match="another document"):
        AnswerType.of(json.dumps(far))


SLOW: list[tuple[dict[str, Any], str]] = [
    ({"type": "string", "pattern": "(a+)+$"}, "the keyword pattern"),
    ({"properties": {"a": {"patternProperties": {"(a+)+$": {}}}}}, "the keyword patternProperties"),
    ({"anyOf": [{"type": "string"}], "unevaluatedProperties": False}, "the keyword unevaluatedProperties"),
    ({"allOf": [{"$ref": "#"}]}, "# refers to itself"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}}, "#/$defs/a refers to itself"),
    ({"$ref": "#/$defs/b", "$defs": {}}, "names none of its parts"),
    (
        {
            "$ref": "#/$defs/0",
            "$defs": {"20": {}} | {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(20)},
        },
        "multiply to more than 10,000",
    ),
]


@pytest.mark.parametrize(("schema", "why"), SLOW)
def test_schemas_that_take_long_to_check(schema: dict[str, Any], why: str) -> None:
    assert why in slow_schema_reason(json.dumps(schema))


def test_schemas_that_are_checked_at_once() -> None:
    class Sales(BaseModel):
        pattern: str
        sales: list[Sale]

    for harmless in ("", "money", json.dumps(SCHEMA), json.dumps(Sales.model_json_schema())):
        assert slow_schema_reason(harmless) == ""


def test_a_schema_may_be_a_file_beside_the_questions_or_a_pydantic_model(tmp_path: Path) -> None:
    (tmp_path / "sale.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "q.csv").write_text("question,answer_type\nWho bought?,sale.json\nWho sold?,other.json\n")
    (question,), bad = read_questions(tmp_path / "q.csv")
    assert json.loads(question.answer_type) == SCHEMA
    assert "other.json" in bad[0].message
    assert "row 2" in bad[0].message
    (one, many), _ = read_questions(
        [{"question": "a", "answer_type": Sale}, {"question": "b", "answer_type": list[Sale]}]
    )
    assert set(json.loads(one.answer_type)["properties"]) == {"buyer", "price"}
    assert json.loads(many.answer_type)["items"]["title"] == "Sale"


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"answer_type": "mony"}, "row 2: The answer_type 'mony' is not known. Did you mean money?"),
        ({"answer_type": "list of colours"}, "'colours' is not known"),
        ({"answer_type": "choices"}, "none is given"),
        ({"answer_type": "choices", "choices": "only"}, "1 is given"),
        ({"answer_type": "money", "choices": "a;b"}, "Leave out one of the two"),
        ({"answer_type": "choices [a, b]"}, "not a JSON list"),
        ({"answer_type": '{"type": "objekt"}'}, "is no JSON schema: 'objekt'"),
        ({"answer_type": '{"type": '}, "not JSON"),
        ({"answer_type": {"name": "string"}}, "asks for anything"),
        ({"answer_type": "nowhere.json"}, "no readable file nowhere.json"),
    ],
)
def test_a_bad_type_is_a_bad_row_with_its_remedy(cells: dict[str, Any], says: str) -> None:
    asked, bad = read_questions([{"question": "Fine?"}, {"question": "What?", **cells}])
    assert len(asked) == 1
    assert says in bad[0].message


def test_an_answer_gets_its_value_or_is_invalid() -> None:
    text = "(in thousands)\n| Revenue | $ 10,135 |"
    cited = Citation("d", 15, len(text), text[15:])
    given = Answer("answered", "$10,135", (cited,), context=(Passage("d", 0, len(text), text, 9, 1.0),))
    found = with_value("Revenue?", AnswerType.of("money"), given)
    assert found.value is not None
    assert (found.value.value, found.value.scale, found.value.currency) == ("10135000", "thousand", "USD")
    assert with_value("Revenue?", TEXT, given) is given
    wrong = with_value("When?", AnswerType.of("date"), given)
    assert (wrong.status, wrong.answer, wrong.value) == ("invalid_output", "", None)
    assert wrong.error.endswith("The raw reply: $10,135")
    listed = with_value("Which?", AnswerType.of("list of number"), Answer("answered", "1; 2"))
    assert listed.value is not None
    assert [each["value"] for each in json.loads(listed.value.value)] == ["1", "2"]
    schema = AnswerType.of(json.dumps(SCHEMA))
    assert with_value("Who?", schema, Answer("answered", '{"buyer": "Alder"}')).status == "answered"
    assert with_value("Who?", schema, Answer("answered", "Alder")).status == "invalid_output"
