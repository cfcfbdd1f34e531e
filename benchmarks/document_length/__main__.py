"""Cost, recall and latency by the length of the documents: the same questions at 10k, 50k, 100k and 200k tokens.

    python -m benchmarks.document_length --data DATA --sets hotpotqa --out benchmarks/results/document_length.md

`DATA` is laid out as configs/datasets.yaml says. Documents are pooled from the test side's own texts (`sets.py`), the
longer ones joined of the shorter (`longer.py`), indexed, and asked by the evidence bench's own methods, which gives
recall and tokens; then the stages are timed (`stages.py`). Everything is printed beside its ratio to the shortest
documents' figure of the same run. `--work` keeps archives and vectors.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.document_length.figures import Asked, Shown, shown
from benchmarks.document_length.longer import longer, without_repeats
from benchmarks.document_length.report import Measured, Size, report
from benchmarks.document_length.sets import LENGTHS, POLICIES, SEED, SETS, STD_RAG, some_questions
from benchmarks.document_length.stages import Stopwatch, measure_stages
from okralong.lab.datasets.base import load_catalog
from okralong.lab.datasets.encoder import cached_encoder
from okralong.lab.datasets.split import MANIFEST, Split
from okralong.lab.evidence.bench import Bench, PolicyRun, Remembered, Row, run_plain, run_policy
from okralong.lab.evidence.config import SetChoice
from okralong.lab.evidence.sets import DataSetStore
from okralong.lab.evidence.sweep import scaled_policies
from okralong.lab.evidence.writers import GoldWriter, as_question
from okralong.pipelines.answering.analyzers.analysis import Analyzer
from okralong.pipelines.answering.analyzers.analyzer import AnalyzerConfig, load_analyzer
from okralong.pipelines.indexing.config import IndexConfig

_POLICY = {name: scaled_policies(method)[1.0] for name, method in POLICIES.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(".evidence"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--timed", type=int, default=30, help="Questions of a set whose stages are timed.")
    options = parser.parse_args()
    store = DataSetStore(
        catalog=load_catalog(),
        split=Split.load(MANIFEST),
        data=options.data,
        work=options.work,
        side="test",
        seed=SEED,
        encoder=cached_encoder(options.work),
        say=partial(print, flush=True),
    )
    benches = {
        f"{own.name} {own.part}": _benches(store, own, fill) for own, fill in (SETS[name] for name in options.sets)
    }
    analyzer = load_analyzer(AnalyzerConfig(kind="heads"))
    remembered = Remembered(analyzer)
    asked = {name: _asked(by_length, remembered) for name, by_length in benches.items()}
    watches = {name: _watches(by_length, analyzer) for name, by_length in benches.items()}
    measured = Measured(
        sizes=[_size(name, by_length) for name, by_length in benches.items()],
        shown={"": _shown(list(asked.values())), **{name: _shown([own]) for name, own in asked.items()}},
        seconds={name: _seconds(name, watches[name], options.timed) for name in benches},
        reading={name: {at: watch.first_reading() for at, watch in own.items()} for name, own in watches.items()},
        embedding=_embedding(store, next(iter(benches.values()))[LENGTHS[0]]),
    )
    text = report(measured)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


def _benches(store: DataSetStore, own: SetChoice, fill: SetChoice | None) -> dict[int, Bench]:
    """A set at each length: documents of the first as they are pooled, the others joined of them and of ``fill``."""
    config = IndexConfig(
        granularities=sorted({STD_RAG.granularity, *(g for p in _POLICY.values() for g in p.granularities())})
    )
    short = without_repeats(store.pooled(own))
    taken = {text_id for document in short.documents for text_id in document.placed}
    spare = store.pooled(fill).documents if fill else ()
    # A text that stands in both would show a question's evidence in a second place, where nothing is marked.
    others = [document for document in spare if taken.isdisjoint(document.placed)]
    found = {}
    for length in LENGTHS:
        pooled = short if length == LENGTHS[0] else longer(short, length, others)
        began = time.perf_counter()
        found[length] = store.bench(own.model_copy(update={"pool_tokens": length}), pooled, config)
        store.say(
            f"{own.name} at {length:,}: {len(pooled.questions)} questions, {len(pooled.documents)} documents, "
            f"{store.encoder.embedded:,} texts embedded so far, {time.perf_counter() - began:.0f} s"
        )
    return found


def _asked(by_length: Mapping[int, Bench], analyzer: Analyzer) -> dict[str, dict[int, Asked]]:
    """The rows of each method at each length; questions without marked evidence are left out."""
    found: dict[str, dict[int, Asked]] = {name: {} for name in (*_POLICY, "std-rag")}
    for length, bench in by_length.items():
        items = [question.item for question in bench.pooled.questions]
        queries = [as_question(query) for item in items for query in item.gold_queries]
        bench.retrievals.prepare([*(item.gold.question.question for item in items), *queries])
        tokens = dict(bench.retrievals.archive.document_tokens(()))
        own = {q.item.gold.question.query_id: sum(tokens[each] for each in q.doc_ids) for q in bench.pooled.questions}
        for name, policy in _POLICY.items():
            run = PolicyRun(policy, analyzer, GoldWriter())
            found[name][length] = _sorted(asyncio.run(run_policy(bench, name, run, 1.0)), own)
        found["std-rag"][length] = _sorted(asyncio.run(run_plain(bench, "std-rag", STD_RAG)), own)
    return found


def _sorted(rows: Sequence[Row], tokens: Mapping[str, int]) -> Asked:
    marked = [row for row in rows if row.shown.evidence_recall is not None]
    in_order = sorted(marked, key=lambda row: row.query_id)
    return Asked(in_order, [tokens[row.query_id] for row in in_order])


def _shown(sets: Sequence[Mapping[str, Mapping[int, Asked]]]) -> dict[str, dict[int, Shown]]:
    return {
        name: {length: shown([each[name] for each in sets], length, LENGTHS[0], SEED) for length in sets[0][name]}
        for name in sets[0]
    }


def _watches(by_length: Mapping[int, Bench], analyzer: Analyzer) -> dict[int, Stopwatch]:
    return {length: Stopwatch(bench, _POLICY["ours"], analyzer) for length, bench in by_length.items()}


def _seconds(name: str, watches: Mapping[int, Stopwatch], most: int) -> dict[int, dict[str, list[float]]]:
    questions = {at: some_questions(watch.bench.pooled, most).questions for at, watch in watches.items()}
    print(f"{name}: timing {len(questions[LENGTHS[0]])} questions", flush=True)
    return measure_stages(watches, questions)


def _embedding(store: DataSetStore, bench: Bench) -> float:
    """Median seconds of the processor for embedding a question by itself."""
    encode = store.encoder.load()
    asked = [question.item.gold.question.question for question in bench.pooled.questions[:21]]
    spent = []
    for text in asked:
        began = time.process_time()
        encode([text])
        spent.append(time.process_time() - began)
    return sorted(spent[1:])[len(spent[1:]) // 2]


def _size(name: str, by_length: Mapping[int, Bench]) -> Size:
    questions = next(iter(by_length.values())).pooled.questions
    documents = {}
    for length, bench in by_length.items():
        tokens = [n for _, n in bench.retrievals.archive.document_tokens(())]
        documents[length] = (len(tokens), sum(tokens) / len(tokens))
    sources = {source for each in questions for source in each.item.documents or each.doc_ids}
    return Size(name, len(questions), len(sources), documents)


if __name__ == "__main__":
    main()
