"""Read sets over whole texts: NarrativeQA, QuALITY, TriviaQA, MultiHop-RAG's news and LongBench v2.

SARA's tables use the first three; the questions of the fourth are about a whole collection. Only MultiHop-RAG marks
evidence.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from okralong.lab.datasets.answers import grounded, one_part
from okralong.lab.datasets.base import Builder, DataSet, Evidence, Item, Text
from okralong.lab.datasets.catalog import question_type
from okralong.lab.datasets.files import Row, json_lines, read_json, row_of, rows_in, table_rows
from okralong.pipelines.core.types import InputError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.formats.html import page_of_html

NARRATIVEQA: Final = "narrativeqa"
QUALITY: Final = "quality"
LONGBENCH_V2: Final = "longbench_v2"
TRIVIAQA: Final = "triviaqa"
MULTIHOP_RAG: Final = "multihop_rag"
UNANSWERABLE: Final = "unanswerable"

_MARKUP: Final = re.compile(r"<\s*(?:!doctype|html|head|body|pre|p|br|div)\b", re.IGNORECASE)

logger = logging.getLogger(__name__)

# --------
# NarrativeQA: questions on books and film scripts, written by people who had read a summary (Kocisky et al. 2018).
#
# The authors' files are ``qaps.csv`` (document_id, set, question, answer1, answer2),
# ``third_party/wikipedia/summaries.csv`` (document_id, summary), and ``tmp/DOCUMENT_ID.content``, which their
# ``download_stories.sh`` fetches. The hub has Parquet files with a row per question: ``document`` (id, text, start,
# end, and summary with text and title), ``question`` and ``answers`` (text each).
#
# A story begins with the words in ``story_start`` and ends with those in ``story_end``, if it has them, so that Project
# Gutenberg's own text is left out. Of a film script that is a web page, the visible text is used.

SUMMARIES: Final = "_summaries"
"""In a part with this suffix, such as test_summaries, the texts are Wikipedia's summaries instead of the stories."""


def read_narrativeqa(path: Path, part: str) -> DataSet:
    """Read the questions of the authors' set that ``part`` names (train, valid, test), or all in a file of the hub.

    The answers of both annotators are wordings. There is no evidence. Raises InputError naming file, row and field, or
    the missing story.
    """
    made = Builder(NARRATIVEQA, part)
    if path.is_dir():
        _narrative_folder(path, made, part.removesuffix(SUMMARIES), part.endswith(SUMMARIES))
    else:
        for number, row in enumerate(rows_in(path), start=1):
            document = row.inner("document")
            if part.endswith(SUMMARIES):
                told = document.inner("summary").text("text")
            else:
                told = story(document.text("text"), document.get("start", str), document.get("end", str))
            text = made.text(document.text("id"), told)
            answers = [answer.text("text") for answer in row.rows("answers", "answer")]
            _narrative_item(row, made, text, row.inner("question").text("text"), answers, number)
    return made.built()


def _narrative_folder(folder: Path, made: Builder, wanted: str, summaries: bool) -> None:
    _, documents = table_rows(folder / "documents.csv")
    summary_of: dict[str, str] = {}
    if summaries:
        _, told = table_rows(folder / "third_party" / "wikipedia" / "summaries.csv")
        summary_of = {row.text("document_id"): row.text("summary") for row in told}
    texts: dict[str, Text] = {}
    for row in documents:
        identity = row.text("document_id")
        if row.text("set") != wanted:
            continue
        if summaries:
            if identity not in summary_of:
                row.bad("document_id", f"is {identity}, which summaries.csv does not have")
            content = summary_of[identity]
        else:
            content = story(_content(folder, identity), row.get("story_start", str), row.get("story_end", str))
        texts[identity] = made.text(identity, content)
    _, asked = table_rows(folder / "qaps.csv")
    for number, row in enumerate(asked, start=1):
        if row.text("set") != wanted:
            continue
        identity = row.text("document_id")
        if identity not in texts:
            row.bad("document_id", f"is {identity}, which documents.csv does not have")
        answers = [row.text("answer1"), row.text("answer2")]
        _narrative_item(row, made, texts[identity], row.text("question"), answers, number)


def _content(folder: Path, identity: str) -> str:
    file = folder / "tmp" / f"{identity}.content"
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{file} cannot be read: {error.strerror}. NarrativeQA's stories are not part of its repository: run its "
            f"download_stories.sh in {folder}, or take a part that ends in {SUMMARIES}, which needs none."
        ) from error


def _narrative_item(row: Row, made: Builder, text: Text, asked: str, answers: Sequence[str], number: int) -> None:
    label = "summary" if made.part.endswith(SUMMARIES) else "story"
    named = Row(row.file, row.place, {"id": str(number), "question": asked.strip()})
    wordings = list(dict.fromkeys(answer.strip() for answer in answers))
    if not wordings:
        row.bad("answers", "holds no answer")
    parts = grounded(one_part(wordings), [text.text])
    kind = question_type(NARRATIVEQA, label)
    gold = made.gold(named, "id", wordings, kind, label, parts, prefix=f"{NARRATIVEQA}-{text.document}")
    made.items.append(Item(gold, (text.document,), (text.text_id,)))


def story(content: str, start: str, end: str) -> str:
    """Return a story from its first words to its last; of a web page, the visible text."""
    if _MARKUP.search(content[:2000]):
        content = page_of_html(content, "story.html").text
    first, last = _words_at(content, start, 0), _words_at(content, end, len(content) // 2)
    begin = first[0] if first else 0
    close = last[1] if last and last[1] > begin else len(content)
    return content[begin:close].strip()


def _words_at(text: str, wanted: str, begin: int) -> tuple[int, int] | None:
    """Find words from a place on, ignoring differences in white space."""
    words = wanted.split()
    found = re.compile(r"\s+".join(map(re.escape, words))).search(text, begin) if words else None
    return found.span() if found else None


# --------
# QuALITY: multiple-choice questions on stories and articles of 5,000 words (Pang et al. 2022).

CHOICES: Final = "Answer with the words of one of these options:"  # project default
"""The text between a question and its options."""


def read_quality(path: Path, part: str) -> DataSet:
    """Read a file such as ``QuALITY.v1.0.1.htmlstripped.dev``.

    Each line is an article with ``article_id``, ``title``, ``article`` and ``questions`` (``question``, ``options``,
    ``gold_label`` from 1, ``difficult``). The question lists its options, one per line, and the gold answer is the text
    of the right option. The label is "hard" if most readers under time pressure were wrong, else "easy". An article has
    two lines in the file, by two writers; a question's id is its position in both. The test file has no gold labels.
    Raises InputError naming file, row and field.
    """
    made = Builder(QUALITY, part)
    for number, value in json_lines(path):
        row = row_of(path, f"row {number}", value)
        article = row.text("article")
        if _MARKUP.search(article):
            article = page_of_html(article, "article.html").text
        text = made.text(f"quality-{row.text('article_id')}", f"{row.text('title').strip()}\n\n{article.strip()}")
        for place, asked in enumerate(row.rows("questions", "question"), start=1):
            made.items.append(_choice_item(asked, made, text, f"{row.text('set_unique_id')}-{place}"))
    return made.built()


def _choice_item(row: Row, made: Builder, text: Text, identity: str) -> Item:
    options = [option.strip() for option in row.texts("options")]
    gold_label = row.get("gold_label", int)
    if not 1 <= gold_label <= len(options):
        row.bad("gold_label", f"is {gold_label}, and there are {len(options)} options")
    label = "hard" if row.get("difficult", int) else "easy"
    asked = Row(row.file, row.place, {"id": identity, "question": _with_options(row.text("question"), options)})
    kind = row.type_of("difficult", QUALITY, label)
    # The options paraphrase the article, so there are no parts to search for.
    gold = made.gold(asked, "id", [options[gold_label - 1]], kind, label)
    return Item(gold, (text.document,), (text.text_id,))


def _with_options(question: str, options: Sequence[str]) -> str:
    return "\n".join([question.strip(), CHOICES, *(f"- {option}" for option in options)])


# --------
# LongBench v2: multiple-choice questions on contexts of 8,000 to 2 million words (Bai et al. 2025).


def read_longbench_v2(path: Path, part: str) -> DataSet:
    """Read ``data.json``, a list of questions.

    A row has ``_id``, ``question``, ``choice_A`` to ``choice_D``, ``answer`` (one of these letters), ``context`` and
    ``difficulty`` (the label: easy or hard). The question lists its options, as in QuALITY, and the gold answer is the
    text of the right option. The context is the item's only text. Raises InputError naming file, row and field.
    """
    made = Builder(LONGBENCH_V2, part)
    for row in rows_in(path):
        options = {letter: row.text(f"choice_{letter}").strip() for letter in "ABCD"}
        letter, label, identity = row.text("answer").strip(), row.text("difficulty"), row.text("_id")
        if letter not in options:
            row.bad("answer", f"is {letter!r} and not one of {', '.join(options)}")
        text = made.text(f"{LONGBENCH_V2}-{identity}", row.text("context"))
        question = _with_options(row.text("question"), list(options.values()))
        asked = Row(row.file, row.place, {"id": identity, "question": question})
        kind = row.type_of("difficulty", LONGBENCH_V2, label)
        gold = made.gold(asked, "id", [options[letter]], kind, label)
        made.items.append(Item(gold, (text.document,), (text.text_id,)))
    return made.built()


# --------
# TriviaQA: trivia questions with pages that contain the words of the answer (Joshi et al. 2017).
#
# A file such as ``qa/wikipedia-dev.json`` is one object: ``Domain`` (Wikipedia or Web) and ``Data``, a list of
# questions with ``QuestionId``, ``Question``, ``Answer`` (``Value``, ``Aliases``), ``EntityPages`` and, on the web,
# ``SearchResults`` (``Filename``, ``Title``). The pages are in ``evidence/wikipedia`` and ``evidence/web`` next to
# ``qa``. The hub's Parquet files (rc) have the texts of the pages in columns of the question's row.


def read_triviaqa(path: Path, part: str) -> DataSet:
    """Read TriviaQA. Each page of a question is a text that begins with its title; the item's context is all of them.

    Aliases are wordings. The pages were found by a search and it was not checked whether they answer the question, so
    there is no evidence. Raises InputError naming file, row and field, or the missing page.
    """
    made = Builder(TRIVIAQA, part)
    if path.suffix == ".parquet":
        for row in rows_in(path):
            made.items.append(_trivia_item(row, made, _hub_pages(row), _HUB))
        return made.built()
    content = row_of(path, "the file's content", read_json(path))
    web = content.text("Domain").casefold() == "web"
    for row in content.rows("Data", "question"):
        pages = [_page(path, page, "wikipedia") for page in row.rows("EntityPages", "page")]
        if web and "SearchResults" in row.values:
            pages += [_page(path, page, "web") for page in row.rows("SearchResults", "result")]
        made.items.append(_trivia_item(row, made, pages, _AUTHORS))
    return made.built()


_AUTHORS: Final = ("QuestionId", "Question", "Answer", "Value", "Aliases")
_HUB: Final = ("question_id", "question", "answer", "value", "aliases")
"""The names of the same fields in the authors' files and on the hub: id, question, answer, and its value and
aliases."""


def _trivia_item(
    row: Row, made: Builder, pages: Sequence[tuple[str, str]], names: tuple[str, str, str, str, str]
) -> Item:
    identity, asked, answer, value, aliases = names
    told = row.inner(answer)
    wordings = [told.text(value), *told.texts(aliases)]
    answers = [each for each in dict.fromkeys(map(str.strip, wordings)) if each]
    texts = list(dict.fromkeys(made.titled(title, text) for title, text in pages if text.strip()))
    if not texts:
        row.bad(asked, "has no page with a text")
    named = Row(row.file, row.place, {identity: row.text(identity), "question": row.text(asked).strip()})
    parts = grounded(one_part(answers), [text.text for text in texts])
    gold = made.gold(named, identity, answers, question_type(TRIVIAQA, "page"), "page", parts)
    documents = tuple(dict.fromkeys(text.document for text in texts))
    return Item(gold, documents, tuple(text.text_id for text in texts))


def _page(questions: Path, page: Row, folder: str) -> tuple[str, str]:
    file = questions.parent.parent / "evidence" / folder / page.text("Filename")
    try:
        return page.text("Title"), file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"{file} cannot be read: {error.strerror}. TriviaQA's pages are in the folder evidence next to qa, as its "
            "archive unpacks them: unpack triviaqa-rc.tar.gz completely."
        ) from error


def _hub_pages(row: Row) -> list[tuple[str, str]]:
    """Return the pages of a row that has them as columns."""
    pages: list[tuple[str, str]] = []
    for field, column in (("entity_pages", "wiki_context"), ("search_results", "search_context")):
        if field not in row.values:
            continue
        columns = row.inner(field)
        titles, texts = columns.texts("title"), columns.texts(column)
        if len(titles) != len(texts):
            columns.bad(column, f"has {counted(len(texts), 'entry')} for {counted(len(titles), 'title')}")
        pages += zip(titles, texts, strict=True)
    return pages


# --------
# MultiHop-RAG: questions over two to four of some hundred news articles (Tang and Yang 2024).

_QUERIES: Final = "MultiHopRAG.json"
_CORPUS: Final = "corpus.json"


def read_multihop_rag(path: Path, part: str) -> DataSet:
    """Read ``MultiHopRAG.json`` beside ``corpus.json``; ``path`` may also be the folder with both.

    An article (``title``, ``source``, ``published_at``, ``url``, ``body``) is a text: its title, a line with source and
    date, which questions ask about, and the body. A query has ``query``, ``answer``, ``question_type`` and
    ``evidence_list`` (``title``, ``url``, ``fact``). Every item's context is the whole collection. The evidence is the
    place of each fact in its article, ignoring white space. An item with a fact that is not found has no evidence and
    is counted in the log. A "null" query, which the collection cannot answer, has the gold answer "unanswerable".
    Raises InputError naming file, row and field.
    """
    folder = path if path.is_dir() else path.parent
    made = Builder(MULTIHOP_RAG, part)
    articles: dict[str, Text] = {}
    for row in rows_in(folder / _CORPUS):
        title = row.text("title").strip()
        head = f"{title}\nSource: {row.text('source').strip()}, {row.text('published_at').strip()}"
        articles[_article(row)] = made.text(title, f"{head}\n\n{row.text('body').strip()}")
    everything = tuple(dict.fromkeys(text.text_id for text in articles.values()))
    lost = 0
    for number, row in enumerate(rows_in(folder / _QUERIES), start=1):
        item, whole = _query_item(row, made, articles, everything, number)
        made.items.append(item)
        lost += not whole
    logger.info("%s: %d queries have a fact that its article does not hold.", folder / _QUERIES, lost)
    return made.built()


def _article(row: Row) -> str:
    """Return an article's address, or its title if it has none."""
    url = row.values.get("url")
    return url.strip() if isinstance(url, str) and url.strip() else row.text("title").strip()


def _query_item(
    row: Row, made: Builder, articles: Mapping[str, Text], everything: tuple[str, ...], number: int
) -> tuple[Item, bool]:
    label = row.text("question_type").strip()
    kind = row.type_of("question_type", MULTIHOP_RAG, label)
    answers = [UNANSWERABLE if label == "null_query" else row.text("answer").strip()]
    pieces: list[Evidence] = []
    documents: list[str] = []
    whole = True
    for fact in row.rows("evidence_list", "fact"):
        text = articles.get(_article(fact))
        if text is None:
            fact.bad("url", f"names {_article(fact)!r}, which {_CORPUS} does not have")
        documents.append(text.document)
        place = _words_at(text.text, fact.text("fact"), 0)
        whole = whole and place is not None
        pieces += [Evidence(text.text_id, *place)] if place is not None else []
    asked = Row(row.file, row.place, {"id": str(number), "question": row.text("query").strip()})
    shown = {piece.text_id for piece in pieces}
    texts = [text.text for text in articles.values() if text.text_id in shown]
    # "Yes" and "no" may occur in any text. Other answers are searched for in the articles of the facts.
    parts = grounded(one_part(answers), texts) if texts and label == "inference_query" else ()
    gold = made.gold(asked, "id", answers, kind, label, parts)
    evidence = tuple(dict.fromkeys(pieces)) if whole else ()
    sources = tuple(dict.fromkeys(documents or (text.document for text in articles.values())))
    return Item(gold, sources, everything, evidence), whole
