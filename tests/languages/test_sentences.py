"""Sentences, chunks and quotations of other languages than English."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest

from okralong.pipelines.answering.citations import find_citations
from okralong.pipelines.answering.prompt_text import Evidence
from okralong.pipelines.core.sentences import boundaries
from okralong.pipelines.core.types import Document, Passage
from okralong.pipelines.indexing.chunking import chunk_document


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        (
            "de",
            [
                "Zum 31. Dezember 2023 betrug der Umsatz z. B. bei der Müller AG rd. 5 Mio. Euro. ",
                "Siehe Nr. 3 und Abs. 2. Das 4. Quartal war gut. ",
                "Der Gewinn stieg im Jahr 2023. ",
                "Das gilt auch für die Dividende.",
            ],
        ),
        (
            "fr",
            [
                "Le produit « est vendu. » ",
                "La société a dit : « Non ! » ",
                "Puis M. Dupont, p. ex. env. 5, est venu. ",
                "C'est bon ? ",
                "Oui.",
            ],
        ),
        ("es", ["¿Cuánto ganó el Sr. López? ", "¡Mucho! ", "La pág. 5 de EE. UU. lo dice."]),
        ("zh", ["公司营业收入增长3.5%。", "董事会建议提高股息！", "“可以。”", "他说。"]),
        ("ja", ["社長は「増配します。」と述べた。", "株主は喜んだ。"]),
    ],
)
def test_sentences(language: str, sentences: list[str]) -> None:
    text = "".join(sentences)
    ends = [0, *boundaries(text, (), language)]
    assert [text[start:end] for start, end in pairwise(ends)] == sentences


def test_a_wrapped_line_of_wide_characters_does_not_end() -> None:
    line = "公司本年度实现的营业收入较上年同期有较大幅度的增长并且超过了年初的计划"
    text = f"{line}\n{line}。"
    assert list(boundaries(text, ())) == [len(text)]
    assert list(boundaries("目录\n第一章\n", ())) == [3, 7]


def test_chunks_of_chinese_end_after_clauses_and_hold_their_size() -> None:
    clause = "公司的营业收入同比增长百分之十二点五，"
    text = clause * 60 + "结束。" + "净利润下降了。" * 40
    chunks = chunk_document(Document("zh", text, sha256="ab" * 32, language="zh"), 64)
    assert "".join(chunk.text for chunk in chunks) == text
    assert max(chunk.n_tokens for chunk in chunks) <= 64
    assert {chunk.text[-1] for chunk in chunks} <= set("，。")
    accented = unicodedata.normalize("NFD", "é") * 400
    pieces = chunk_document(Document("fr", accented, sha256="ab" * 32), 16)
    assert not any(unicodedata.combining(chunk.text[0]) for chunk in pieces)


@pytest.mark.parametrize(
    ("text", "quote", "cited"),
    [
        ("根据年报，公司营业收入100亿元，同比增长。", "营业收入100亿元", "营业收入100亿元"),
        (
            "売上高は \uff11\uff12\uff13 億円で、 前年を 上回りました。",
            "売上高は123億円で、前年を上回りました",
            "売上高は \uff11\uff12\uff13 億円で、 前年を 上回りました",
        ),
        ("La socie\u0301te\u0301 a gagné 5 €.", "société a gagné", "socie\u0301te\u0301 a gagné"),
        ("Er sagte: „Der Umsatz steigt.“", '"Der Umsatz steigt."', "Der Umsatz steigt"),
        ("« Le résultat baisse »", '"Le résultat baisse"', "Le résultat baisse"),
        ("The marketing plan", "market", None),
    ],
)
def test_quotations_are_found(text: str, quote: str, cited: str | None) -> None:
    passage = Passage("d", 10, 10 + len(text), text, n_tokens=9, score=1.0)
    found = find_citations([Evidence(1, quote)], [passage])
    assert [each.quote for each in found] == ([] if cited is None else [cited])
    assert all(text[each.start_char - 10 : each.end_char - 10] == each.quote for each in found)
