from __future__ import annotations

from okralong.lab.datasets.base import DataSet, make_text
from okralong.lab.datasets.split_build import build_split
from okralong.lab.datasets.split_components import SplitRules, by_passages, by_questions, find_aliases
from tests.evaluation.split.invented import Asked, data_set, rule

FILINGS = data_set(
    "named",
    "all",
    [
        ("What was the revenue of mills?", ["acme_2019"], []),
        ("What was the rent of halls?", ["acme_2019"], []),
        ("What was the tax on salt?", ["bolt_2018"], []),
        ("What is the total?", ["acme_2019"], []),
        ("What is the total?", ["bolt_2018"], []),
    ],
)
TABLES = data_set(
    "lessons",
    "train",
    [
        ("What was the revenue of mills?", ["table-1"], []),
        ("What was the rent of halls?", ["table-1"], []),
        ("What was the tax on salt?", ["table-1"], []),
        ("What is the total?", ["table-2"], []),
    ],
)
WORDS = " ".join(f"word{number}" for number in range(60))


def test_questions_name_the_filing_by_a_vote() -> None:
    assert by_questions(TABLES, [FILINGS]) == {"table-1": ("acme_2019",)}
    even: list[Asked] = [("What was the rent of halls?", ["t"], []), ("What was the tax on salt?", ["t"], [])]
    assert by_questions(data_set("lessons", "train", even), [FILINGS]) == {"t": ("acme_2019", "bolt_2018")}


def test_a_text_that_stands_inside_another_names_it() -> None:
    prompt = make_text("prompt-1", f"Passage 1:\nOf words\n{WORDS}. And more of it.")
    holder = DataSet("prompts", "all", {prompt.text_id: prompt}, ())
    inside = make_text("Of words", f"Of words\n{WORDS}, cut otherwise at the very end of the paragraph, as it happens.")
    elsewhere = make_text("Elsewhere", " ".join(f"term{number}" for number in range(60)))
    short = make_text("Short", "word1 word2 word3")
    other = DataSet("named", "all", {text.text_id: text for text in (inside, elsewhere, short)}, ())
    assert by_passages([holder], [other]) == {"prompt-1": ("Of words",)}
    assert by_passages([], [other]) == {}


def test_other_names_join_components() -> None:
    rules = SplitRules(
        seed=1,
        rules=(rule(["named"], test=1.0), rule(["lessons"], train=1.0)),
        named_by_questions={"lessons": ("named/all",)},
    )
    assert find_aliases([TABLES, FILINGS], rules) == {"table-1": ("acme_2019",)}
    split, account = build_split([TABLES, FILINGS], rules)
    assert [split.side_of(item) for item in TABLES.items] == ["test", "test", "test", None]
    assert account.named == {"lessons": (1, 2)}
