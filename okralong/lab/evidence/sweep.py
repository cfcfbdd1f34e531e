"""Run every method on every set. Reading, indexing and retrieval are real; nothing is paid."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from okralong.lab.datasets.catalog import load_catalog
from okralong.lab.datasets.encoder import EACH
from okralong.lab.datasets.other import OWN
from okralong.lab.evidence.bench import Bench, PolicyRun, Row, run_plain, run_policy
from okralong.lab.evidence.config import GOLD, RULES, PlainMethod, PolicyMethod, Sweep
from okralong.lab.evidence.retrievals import Remembered, RememberedReader
from okralong.lab.evidence.sets import Material, Say
from okralong.lab.evidence.writers import GoldWriter, ModelWriter, Writer, as_question
from okralong.pipelines.answering.analyzers.analysis import Analyzer
from okralong.pipelines.answering.analyzers.analyzer import Corrupted, load_analyzer
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.rerank import RerankerConfig, load_reranker
from okralong.pipelines.core.config import parse_config, read_config
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.models.weights import SHIPPED
from okralong.pipelines.sara.config import NONE

SCALED: Final = ("contextual", "factoid", "split", "step")
"""The sections of a policy whose counts and token budgets are multiplied by a scale."""


def run_sweep(
    sweep: Sweep, data: Path, work: Path, say: Say, models: Mapping[str, ModelWriter] | None = None
) -> list[Row]:
    """Return the rows of every method on every set, using archives that are kept below ``work``.

    ``models`` has the writers "embedded" and "reader". A set that cannot be read is reported and left out. Raises
    ValueError for a missing writer. Raises ConfigError or InputError, before anything is embedded, if a policy or model
    is unusable, a set is not in the catalog, or no set can be read.
    """
    policies = {name: scaled_policies(m) for name, m in sweep.methods.items() if isinstance(m, PolicyMethod)}
    writers: dict[str, Writer] = {"gold": GoldWriter(), **(models or {})}
    wanted = {method.writer for method in sweep.methods.values() if isinstance(method, PolicyMethod)}
    if not wanted <= writers.keys():
        raise ValueError("A method of the sweep needs a writer model that was not given.")
    analyzers = _analyzers(sweep)
    readers = {name: RememberedReader(name, partial(load_reranker, each)) for name, each in rerankers(sweep).items()}
    runs = {
        name: {
            scale: PolicyRun(
                policy,
                analyzers[m.analyzer],
                writers[m.writer],
                m.query_prefix,
                readers[m.reranker] if policy.needs_reranker else None,
                m.labels,
            )
            for scale, policy in policies[name].items()
        }
        for name, m in sweep.methods.items()
        if isinstance(m, PolicyMethod)
    }
    _check_side(sweep)
    gold = any(isinstance(method, PolicyMethod) and method.needs_gold for method in sweep.methods.values())
    material = Material.read(
        sweep, sweep.sets, sweep.side, data, work, say, gold_types=gold, skip=InputError
    )  # all sets are read first, so that a bad one does not waste an hour
    config = index_config(sweep, policies)
    rows: list[Row] = []
    for choice in (each for each in sweep.sets if each.named in material.pooled):
        documents = material.pooled[choice.named]
        asked = counted(len(documents.questions), "question")
        say(f"{choice.named}: {asked}, {counted(len(documents.documents), 'document')}")
        bench = material.store.bench(choice, documents, config)
        rows += asyncio.run(_run_set(sweep, bench, runs, readers, say))
    return rows


def rerankers(sweep: Sweep) -> dict[str, RerankerConfig]:
    """Return the cross-encoders that methods may name: the shipped one, and those that the sweep defines."""
    return {SHIPPED: RerankerConfig(), **sweep.rerankers}


def _check_side(sweep: Sweep) -> None:
    """Check that every set is in the catalog, and that sets taken as a whole are the user's own."""
    named = [(choice.name, choice.part) for choice in sweep.sets]
    named += [(name, part) for choice in sweep.sets for name, part in (each.split(" ", 1) for each in choice.fill)]
    catalog = load_catalog(sweep.catalog)
    public = [source for source in (catalog.source(*each) for each in named) if source.format != OWN]
    if sweep.side == "all" and public:
        raise ConfigError(
            f"side: all takes sets whole, and {public[0].name} {public[0].part} is a public set, parts of which were "
            "used to choose the shipped models and policies. Choose a side of the split, or sets of the format own "
            "alone."
        )


def _analyzers(sweep: Sweep) -> dict[str, Analyzer | None]:
    """Load the analyzers that methods name. Those that differ only in corruption share one loaded analyzer."""
    wanted = {method.analyzer for method in sweep.methods.values() if isinstance(method, PolicyMethod)}
    loaded: dict[str, Remembered] = {}
    found: dict[str, Analyzer | None] = {RULES: KeywordRules(), GOLD: None}
    for name, each in sweep.analyzers.items():
        if name not in wanted:
            continue
        plain = each.model_copy(update={"corrupt": None})
        key = plain.model_dump_json()
        if key not in loaded:
            loaded[key] = Remembered(load_analyzer(plain))
        spoiled = each.corrupt
        found[name] = loaded[key] if spoiled is None else Corrupted(loaded[key], spoiled.share, spoiled.seed)
    return found


def scaled_policies(method: PolicyMethod) -> dict[float, Policy]:
    """Return the policy at each scale. Raises ConfigError if an override is not one of its keys."""
    where, text = read_config(method.policy)
    plain = parse_config(FullPolicy, text, where, method.overrides)
    return {scale: _scaled(plain, scale) for scale in method.scales}


def index_config(sweep: Sweep, policies: Mapping[str, Mapping[float, Policy]]) -> IndexConfig:
    """Return the index config of each set, whose archive is for all methods."""
    wanted: set[int] = set()
    for name, method in sweep.methods.items():
        if isinstance(method, PlainMethod):
            wanted.add(method.granularity)
        else:
            wanted.update(size for policy in policies[name].values() for size in policy.granularities())
    return IndexConfig(granularities=sorted(wanted), embedding=EACH, compressor=NONE)


async def _run_set(
    sweep: Sweep,
    bench: Bench,
    runs: Mapping[str, Mapping[float, PolicyRun]],
    readers: Mapping[str, RememberedReader],
    say: Say,
) -> list[Row]:
    rows: list[Row] = []
    bench.retrievals.prepare(_known_queries(sweep, bench))
    for name, method in sweep.methods.items():
        if isinstance(method, PlainMethod):
            rows += await run_plain(bench, name, method, readers[method.reranker])
        else:
            for scale, run in runs[name].items():
                rows += await run_policy(bench, name, run, scale)
        say(f"  {bench.name}: {name}")
    return rows


def _known_queries(sweep: Sweep, bench: Bench) -> list[str]:
    """Return the queries that are known in advance, because embedding them in one batch is much faster."""
    items = [question.item for question in bench.pooled.questions]
    queries = [item.gold.question.question for item in items]
    if any(isinstance(method, PolicyMethod) and method.writer == "gold" for method in sweep.methods.values()):
        queries += [as_question(query) for item in items for query in item.gold_queries]
    prefixes = {method.query_prefix for method in sweep.methods.values()}
    return [prefix + query for prefix in sorted(prefixes) for query in dict.fromkeys(queries)]


def _scaled(policy: Policy, scale: float) -> Policy:
    changes: dict[str, Any] = {}
    for part in SCALED:
        scope = getattr(policy, part)
        bounds = {"count": (scope.count, 1), "tokens": (getattr(scope, "tokens", None), 16)}
        changed = {key: max(least, round(value * scale)) for key, (value, least) in bounds.items() if value is not None}
        changes[part] = scope.model_copy(update=changed)
    return policy.model_copy(update=changes)
