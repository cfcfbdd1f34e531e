"""NarrativeQA, QuALITY, TriviaQA and MultiHop-RAG, on small files of our own in their published forms."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.lab.datasets.long_texts import (
    CHOICES,
    read_longbench_v2,
    read_multihop_rag,
    read_narrativeqa,
    read_quality,
    read_triviaqa,
    story,
)
from okralong.lab.datasets.pooling import whole
from okralong.pipelines.core.types import InputError
from tests.evaluation.datasets.public_files import json_file, jsonl_file, shown


def csv_file(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


# --- NarrativeQA

TOLD = "IN FELL there was\na mill. Ann Alder burned it. She wept\nall night."
BOOK = f"Project Gutenberg presents this.\n\n{TOLD}\n\nEnd of Project."


def narrative(folder: Path, **changes: Any) -> Path:
    document = {
        "document_id": "b1",
        "set": "test",
        "kind": "gutenberg",
        "story_url": "http://x",
        "story_file_size": 9,
        "wiki_url": "http://y",
        "wiki_title": "The Mill",
        "story_word_count": 12,
        "story_start": "IN FELL there",
        "story_end": "wept all night.",
    }
    other = {**document, "document_id": "b2", "set": "train"}
    asked = {
        "document_id": "b1",
        "set": "test",
        "question": "Who burned the mill?",
        "answer1": "Ann Alder",
        "answer2": "Ann Alder did. ",
        "question_tokenized": "x",
        "answer1_tokenized": "x",
        "answer2_tokenized": "x",
        **changes,
    }
    csv_file(folder / "documents.csv", [document, other])
    csv_file(folder / "qaps.csv", [asked, {**asked, "document_id": "b2", "set": "train"}])
    summary = {"document_id": "b1", "set": "test", "summary": "Ann Alder burns a mill.", "summary_tokenized": "x"}
    csv_file(folder / "third_party" / "wikipedia" / "summaries.csv", [summary])
    (folder / "tmp").mkdir()
    (folder / "tmp" / "b1.content").write_text(BOOK)
    return folder


def test_a_story_is_asked_without_what_stands_around_it(tmp_path: Path) -> None:
    data = read_narrativeqa(narrative(tmp_path), "test")
    (item,), (text,) = data.items, data.texts.values()
    assert text.text == TOLD
    assert (text.document, item.documents, item.text_ids) == ("b1", ("b1",), (text.text_id,))
    question = item.gold.question
    assert (question.query_id, question.question) == ("narrativeqa-b1-1", "Who burned the mill?")
    assert (question.answers, question.type, item.gold.source_type) == (
        ("Ann Alder", "Ann Alder did."),
        "abstractive",
        "story",
    )
    assert (item.gold.parts, item.evidence) == ((("Ann Alder", "Ann Alder did."),), ())


def test_the_summaries_are_texts_of_their_own_part_and_need_no_story(tmp_path: Path) -> None:
    folder = narrative(tmp_path)
    (folder / "tmp" / "b1.content").unlink()
    data = read_narrativeqa(folder, "test_summaries")
    (text,) = data.texts.values()
    assert text.text == "Ann Alder burns a mill."
    assert data.items[0].gold.source_type == "summary"
    with pytest.raises(InputError, match=r"b1\.content cannot be read.*download_stories\.sh"):
        read_narrativeqa(folder, "test")


def test_the_hub_s_rows_are_the_same_questions(tmp_path: Path) -> None:
    row = {
        "document": {
            "id": "b1",
            "kind": "gutenberg",
            "start": "IN FELL there",
            "end": "wept all night.",
            "text": BOOK,
            "summary": {"text": "Ann Alder burns a mill.", "title": "The Mill"},
        },
        "question": {"text": "Who burned the mill?", "tokens": ["Who"]},
        "answers": [{"text": "Ann Alder", "tokens": []}, {"text": "Ann Alder did. ", "tokens": []}],
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "test.parquet")
    hub = read_narrativeqa(tmp_path / "test.parquet", "test")
    own = read_narrativeqa(narrative(tmp_path), "test")
    assert hub.texts == own.texts
    assert [item.gold for item in hub.items] == [item.gold for item in own.items]


def test_a_film_script_is_read_as_its_text() -> None:
    page = "<html><head><title>x</title></head><body><pre>INT. MILL\n\nAnn burns it.</pre></body></html>"
    assert story(page, "INT. MILL", "burns it.").split() == ["INT.", "MILL", "Ann", "burns", "it."]
    assert story("No marks here.", "Never", "stands") == "No marks here."


def test_a_slip_of_narrativeqa_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"qaps\.csv, row 2.*'document_id'.*documents\.csv does not have"):
        read_narrativeqa(narrative(tmp_path, document_id="zz"), "test")


# --- QuALITY

ARTICLE: dict[str, Any] = {
    "article_id": "52",
    "set_unique_id": "52_ann",
    "title": "The Mill",
    "article": "Ann walked down to the mill.<br/>It burned.",
    "questions": [
        {
            "question": "Why? ",
            "options": ["Of spite", "By chance ", "For money", "It did not"],
            "gold_label": 2,
            "difficult": 1,
        },
        {"question": "Where?", "options": ["Here", "There", "Both", "Neither"], "gold_label": 1, "difficult": 0},
    ],
}


def test_a_choice_shows_its_options_and_the_right_one_is_the_answer(tmp_path: Path) -> None:
    second = {**ARTICLE, "set_unique_id": "52_ben", "questions": ARTICLE["questions"][:1]}
    data = read_quality(jsonl_file(tmp_path / "QuALITY.v1.0.1.dev", [ARTICLE, second]), "dev")
    (text,) = data.texts.values()
    assert text.text.startswith("The Mill\n\nAnn walked down to the mill.")
    assert "<br" not in text.text
    first, other, again = data.items
    asked = first.gold.question
    assert asked.question == f"Why?\n{CHOICES}\n- Of spite\n- By chance\n- For money\n- It did not"
    assert (asked.answers, asked.type, first.gold.source_type) == (("By chance",), "abstractive", "hard")
    assert (other.gold.source_type, other.gold.question.answers) == ("easy", ("Here",))
    ids = [item.gold.question.query_id for item in (first, other, again)]
    assert ids == ["quality-52_ann-1", "quality-52_ann-2", "quality-52_ben-1"]
    assert {item.text_ids for item in data.items} == {(text.text_id,)}


@pytest.mark.parametrize(("label", "why"), [(5, "is 5, and there are 4 options"), (None, "'gold_label' is missing")])
def test_a_label_that_is_no_option_is_refused(tmp_path: Path, label: int | None, why: str) -> None:
    bad = {name: value for name, value in {**ARTICLE["questions"][0], "gold_label": label}.items() if value is not None}
    file = jsonl_file(tmp_path / "test", [{**ARTICLE, "questions": [bad]}])
    with pytest.raises(InputError, match=rf"row 1, question 1.*{why}"):
        read_quality(file, "test")


# --- LongBench v2

CHOSEN: dict[str, Any] = {
    "_id": "66f3",
    "domain": "Single-Document QA",
    "sub_domain": "Legal",
    "difficulty": "hard",
    "length": "short",
    "question": "Who burned the mill? ",
    "choice_A": "Ann",
    "choice_B": "Bob",
    "choice_C": "The owner",
    "choice_D": "Nobody",
    "answer": "C",
    "context": "The mill of Alder burned. Its owner was seen.",
}


def test_longbench_v2_s_options_are_in_the_question_and_the_answer_is_the_right_one(tmp_path: Path) -> None:
    data = read_longbench_v2(json_file(tmp_path / "data.json", [CHOSEN]), "all")
    (item,) = data.items
    question = item.gold.question
    assert question.question.splitlines()[0] == "Who burned the mill?"
    assert question.question.splitlines()[2:] == ["- Ann", "- Bob", "- The owner", "- Nobody"]
    assert (question.query_id, question.answers) == ("longbench_v2-66f3", ("The owner",))
    assert (item.gold.source_type, data.texts[item.text_ids[0]].text) == ("hard", CHOSEN["context"])
    with pytest.raises(InputError, match="row 1: the field 'answer' is 'E' and not one of A, B, C, D"):
        read_longbench_v2(json_file(tmp_path / "data.json", [{**CHOSEN, "answer": "E"}]), "all")


# --- TriviaQA


def trivia(folder: Path, domain: str = "Wikipedia", **changes: Any) -> Path:
    for name, text in {
        "wikipedia/Alder_Mill.txt": "A mill in Fell.",
        "web/3/1.txt": "Alder stands in Fell town.",
    }.items():
        (folder / "evidence" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "evidence" / name).write_text(text)
    (folder / "qa").mkdir()
    question = {
        "Question": "In which town is the Alder mill?",
        "QuestionId": "tc_33",
        "QuestionSource": "http://x",
        "Answer": {"Value": "Fell", "Aliases": ["Fell town", "Fell"], "NormalizedValue": "fell", "Type": "Free"},
        "EntityPages": [{"DocSource": "TagMe", "Filename": "Alder_Mill.txt", "Title": "Alder Mill"}],
        "SearchResults": [{"Filename": "3/1.txt", "Title": "Mills", "Rank": 0, "Url": "http://x"}],
        **changes,
    }
    content = {"Data": [question], "Domain": domain, "VerifiedEval": False, "Version": 1.0}
    return json_file(folder / "qa" / "dev.json", content)


@pytest.mark.parametrize(("domain", "titles"), [("Wikipedia", ["Alder Mill"]), ("Web", ["Alder Mill", "Mills"])])
def test_pages_are_texts_and_aliases_wordings(tmp_path: Path, domain: str, titles: list[str]) -> None:
    data = read_triviaqa(trivia(tmp_path, domain), "dev")
    (item,) = data.items
    assert [text.document for text in data.texts.values()] == titles == list(item.documents)
    assert next(iter(data.texts.values())).text == "Alder Mill\nA mill in Fell."
    question = item.gold.question
    assert (question.query_id, question.answers, question.type) == (
        "triviaqa-tc_33",
        ("Fell", "Fell town"),
        "extractive",
    )
    assert item.evidence == ()
    assert item.gold.parts == (("Fell", "Fell town"),)


def test_the_hub_keeps_the_pages_in_the_row(tmp_path: Path) -> None:
    row = {
        "question": "In which town is the Alder mill?",
        "question_id": "tc_33",
        "entity_pages": {"title": ["Alder Mill"], "filename": ["a"], "wiki_context": ["A mill in Fell."]},
        "search_results": {"title": ["Mills"], "search_context": ["Alder stands in Fell town."]},
        "answer": {"value": "Fell", "aliases": ["Fell town", "Fell"]},
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "dev.parquet")
    hub, own = read_triviaqa(tmp_path / "dev.parquet", "dev"), read_triviaqa(trivia(tmp_path, "Web"), "dev")
    assert hub == own


def test_a_page_that_is_missing_is_named(tmp_path: Path) -> None:
    lost = [{"Filename": "Gone.txt", "Title": "Gone"}]
    with pytest.raises(InputError, match=r"evidence/wikipedia/Gone\.txt cannot be read.*triviaqa-rc"):
        read_triviaqa(trivia(tmp_path, EntityPages=lost), "dev")


# --- MultiHop-RAG


def article(title: str, source: str, published_at: str, url: str, body: str) -> dict[str, str]:
    about = {"author": "x", "category": "local"}
    return {**about, "title": title, "source": source, "published_at": published_at, "url": url, "body": body}


NEWS = [
    article("Mill burns", "The Fell Post", "2023-10-02", "http://a", "Ann Alder\nset fire to it. It rained."),
    article("Alder speaks", "Harbour News", "2023-11-05", "http://b", "She says it was Ben."),
    article("Weather", "Harbour News", "2023-11-06", "http://c", "It rains."),
]


def multihop(folder: Path, *queries: dict[str, Any]) -> Path:
    (folder / "corpus.json").write_text(json.dumps(NEWS))
    return json_file(folder / "MultiHopRAG.json", list(queries))


def query(question_type: str, answer: str, *facts: tuple[int, str]) -> dict[str, Any]:
    evidence = [{**{k: NEWS[n][k] for k in ("title", "url", "source")}, "fact": fact} for n, fact in facts]
    return {
        "query": f"Who, says {question_type}?",
        "answer": answer,
        "question_type": question_type,
        "evidence_list": evidence,
    }


def test_facts_are_placed_in_their_articles_and_the_whole_collection_is_asked(tmp_path: Path) -> None:
    first = query("inference_query", "Ann Alder", (0, "Ann Alder set fire to it."), (1, "She says it was Ben."))
    folder = multihop(tmp_path, first, query("null_query", "Insufficient information.")).parent
    data = read_multihop_rag(folder, "all")
    found, null = data.items
    assert shown(data, found) == ["Ann Alder\nset fire to it.", "She says it was Ben."]
    assert [text.text.split("\n\n")[0] for text in data.texts.values()] == [
        "Mill burns\nSource: The Fell Post, 2023-10-02",
        "Alder speaks\nSource: Harbour News, 2023-11-05",
        "Weather\nSource: Harbour News, 2023-11-06",
    ]
    assert found.documents == ("Mill burns", "Alder speaks")
    assert found.text_ids == null.text_ids == tuple(data.texts)
    assert (found.gold.question.type, found.gold.parts) == ("multi-source", (("Ann Alder",),))
    assert (null.gold.question.answers, null.evidence, null.gold.parts) == (("unanswerable",), (), ())
    assert [len(question.doc_ids) for question in whole(data).questions] == [3, 3]


def test_a_fact_that_stands_nowhere_leaves_the_query_without_evidence(tmp_path: Path) -> None:
    lost = query("comparison_query", "Yes", (0, "It rained."), (1, "She never said so."))
    (item,) = read_multihop_rag(multihop(tmp_path, lost), "all").items
    assert (item.evidence, item.gold.parts) == ((), ())
    assert item.gold.question.answers == ("Yes",)


def test_a_slip_of_multihop_rag_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"MultiHopRAG\.json, row 1.*'question_type'.*'riddle'"):
        read_multihop_rag(multihop(tmp_path, query("riddle", "x")), "all")
    unknown = query("temporal_query", "x", (0, "It rained."))
    unknown["evidence_list"][0]["url"] = "http://zz"
    with pytest.raises(InputError, match=r"row 1, fact 1.*'url'.*corpus\.json does not have"):
        read_multihop_rag(multihop(tmp_path, unknown), "all")
