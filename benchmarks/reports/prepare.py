"""The questions of the ``reports`` set in our own format.

    python -m benchmarks.reports.prepare ../shared/data runs/reports

writes below OUT: ``questions.jsonl`` (all), ``gold.jsonl`` (the same with what only scoring needs) and
``questions_fit.jsonl``, those that can be asked with the whole scope in one prompt: documents, prompt and the longest
reply fit the generator's window. Give ``--tokenizer`` the folder of the model that answers; a count in o200k_base is
too low for smaller vocabularies.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from benchmarks.reports.gold_file import write_gold, write_questions
from okralong.lab.datasets.filings import read_reports, read_texts
from okralong.lab.datasets.gold import Gold, read_operands
from okralong.pipelines.answering.context import MESSAGE_OVERHEAD
from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.core.tokens import CountTokens, token_counter
from okralong.pipelines.core.types import OkraError, Passage


def fitting(golds: Sequence[Gold], texts: dict[str, str], count: CountTokens, window: int, reply: int) -> list[Gold]:
    """The questions whose prompt with all documents of the scope leaves room for ``reply`` tokens in ``window``."""
    sizes = {doc_id: count(text) for doc_id, text in texts.items()}

    def fits(gold: Gold) -> bool:
        scope = [doc for doc in texts if any(fnmatchcase(doc, entry) for entry in gold.question.doc_ids)]
        if not scope or sum(sizes[doc] for doc in scope) > window:
            return False
        passages = [Passage(doc, 0, len(texts[doc]), texts[doc], sizes[doc], 1.0) for doc in scope]
        messages = answer_prompt(gold.question.question, passages)
        return sum(count(message.content) + MESSAGE_OVERHEAD for message in messages) + reply <= window

    return [gold for gold in golds if fits(gold)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder that holds reports/ (and tatqa/, uda/, finqa/ for operands)")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--tokenizer", default="o200k_base", help="o200k_base, or a folder with a tokenizer.json")
    parser.add_argument("--window", type=int, default=8192, help="prompt and reply together, in tokens")
    parser.add_argument("--reply", type=int, default=96, help="most tokens of a reply (max_completion_tokens)")
    options = parser.parse_args(argv)
    try:
        golds = read_reports(options.data)
        texts = read_texts(options.data)
        fit = fitting(golds, texts, token_counter(options.tokenizer), options.window, options.reply)
        sources = read_operands(options.data).sources
    except OkraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    write_questions(options.out / "questions.jsonl", golds)
    write_gold(options.out / "gold.jsonl", golds)
    write_questions(options.out / "questions_fit.jsonl", fit)
    computed = [gold for gold in golds if gold.question.type == "arithmetic"]
    known = sum(bool(gold.parts) for gold in computed)
    print(f"{len(golds)} questions: {dict(Counter(gold.question.type for gold in golds))}")
    print(f"operands known for {known} of {len(computed)} arithmetic questions, from {', '.join(sources) or 'no file'}")
    print(f"answer recall defined for {sum(bool(gold.parts) for gold in golds)}")
    scopes = sorted({gold.cluster for gold in fit})
    counter = Path(options.tokenizer).name
    print(f"{len(fit)} fit {options.window} tokens as {counter} counts: {', '.join(scopes) or 'no document does'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
