"""The graph of one document: the merged entities and relations of its chunks, and their communities."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from okralong.pipelines.core.extras import needs_extra
from okralong.pipelines.core.tokens import count_tokens

SEED: Final = 0xDEADBEEF
"""The authors' seed for Leiden's algorithm (``index/operations/cluster_graph.py``)."""
DESCRIPTION: Final = 160
"""The most tokens of an entity's or relation's joined descriptions. project default: the authors' summaries have at
most 500."""


# A graph is stored in an artifact as JSON values. Entities, relations and chunks refer to each other by indexes.


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity, with the indexes of the ``chunks`` that name it and its packed ``vector``."""

    name: str
    kind: str
    description: str
    chunks: tuple[int, ...]
    vector: str = ""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between two entities, given by index; ``weight`` is the sum of its strengths in all chunks."""

    source: int
    target: int
    description: str
    weight: float
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Community:
    """A community of entities, given by index.

    Level 0 has the largest communities; ``parent`` is the index of the enclosing one (-1 if none). ``rating`` (0 to 10)
    is the generator's opinion of how informative the ``report`` is.
    """

    level: int
    parent: int
    members: tuple[int, ...]
    title: str = ""
    report: str = ""
    rating: float = 0.0

    @property
    def text(self) -> str:
        """Title and report, as they are shown in prompts."""
        return f"{self.title}\n{self.report}" if self.title else self.report


@dataclass(frozen=True, slots=True)
class Graph:
    """A document's graph; ``chunks`` are ``(chunk_id, ordinal, start, end, tokens)``."""

    doc_id: str
    chunks: tuple[tuple[str, int, int, int, int], ...] = ()
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()
    communities: tuple[Community, ...] = ()

    def written(self) -> dict[str, Any]:
        """Return the graph as JSON values, without the document's id."""
        return {
            "chunks": [list(chunk) for chunk in self.chunks],
            "entities": [[e.name, e.kind, e.description, list(e.chunks), e.vector] for e in self.entities],
            "relations": [[r.source, r.target, r.description, r.weight, list(r.chunks)] for r in self.relations],
            "communities": [
                [c.level, c.parent, list(c.members), c.title, c.report, c.rating] for c in self.communities
            ],
        }

    @classmethod
    def read(cls, doc_id: str, kept: Mapping[str, Any]) -> Graph:
        """Return the graph that ``written`` encoded."""
        return cls(
            doc_id,
            tuple((str(c), o, s, e, n) for c, o, s, e, n in kept["chunks"]),
            tuple(Entity(n, k, d, tuple(chunks), v) for n, k, d, chunks, v in kept["entities"]),
            tuple(Relation(s, t, d, w, tuple(chunks)) for s, t, d, w, chunks in kept["relations"]),
            tuple(Community(lv, p, tuple(m), t, r, g) for lv, p, m, t, r, g in kept["communities"]),
        )

    def degrees(self) -> Counter[int]:
        """Return the number of relations of each entity."""
        return Counter(place for each in self.relations for place in (each.source, each.target))


@dataclass(frozen=True, slots=True)
class Extracted:
    """The entities and relations that one chunk names.

    An entity is ``(name, kind, description)``, a relation ``(source, target, description, strength)``.
    """

    entities: tuple[tuple[str, str, str], ...] = ()
    relations: tuple[tuple[str, str, str, float], ...] = ()


def merged(said: Sequence[Extracted]) -> tuple[tuple[Entity, ...], tuple[Relation, ...]]:
    """Merge the entities and relations that were extracted from the chunks of a document.

    Names that differ only in case and spacing are the same; the first spelling is kept. Relations are undirected.
    Entities are in the order of their first mention.
    """
    names: dict[str, str] = {}
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    told: dict[str, dict[str, None]] = defaultdict(dict)
    where: dict[str, dict[int, None]] = defaultdict(dict)
    pairs: dict[tuple[str, str], _Pair] = {}
    for place, each in enumerate(said):
        for name, kind, description in each.entities:
            key = _key(name)
            names.setdefault(key, name)
            where[key][place] = None
            kinds[key].update([kind] if kind else [])
            told[key].update({description: None} if description else {})
        for source, target, description, strength in each.relations:
            one, other = _key(source), _key(target)
            for key, name in ((one, source), (other, target)):
                names.setdefault(key, name)
                where[key][place] = None
            if one != other:
                pair = pairs.setdefault((min(one, other), max(one, other)), _Pair())
                pair.weight += strength
                pair.chunks[place] = None
                pair.told.update({description: None} if description else {})
    places = {key: number for number, key in enumerate(names)}
    entities = tuple(
        Entity(name, next((k for k, _ in kinds[key].most_common(1)), ""), _joined(told[key]), tuple(where[key]))
        for key, name in names.items()
    )
    relations = tuple(
        Relation(places[one], places[other], _joined(pair.told), pair.weight, tuple(pair.chunks))
        for (one, other), pair in pairs.items()
    )
    return entities, relations


@dataclass(slots=True)
class _Pair:
    weight: float = 0.0
    chunks: dict[int, None] = field(default_factory=dict)
    told: dict[str, None] = field(default_factory=dict)


def _key(name: str) -> str:
    return " ".join(name.casefold().split())


def _joined(descriptions: Mapping[str, None]) -> str:
    """Join descriptions up to ``DESCRIPTION`` tokens; at least one is kept."""
    text = ""
    for each in descriptions:
        longer = f"{text} {each}".strip()
        if text and count_tokens(longer) > DESCRIPTION:
            break
        text = longer
    return text


def communities(graph: Graph, cluster_size: int) -> list[Community]:
    """Return the communities of a graph's entities, level by level, without reports.

    An entity without relations is in no community. The result is deterministic.
    """
    with needs_extra("lab"):
        from graspologic_native import hierarchical_leiden
    # Sorted, because ties depend on the order of the edges.
    edges = sorted((f"{r.source:07d}", f"{r.target:07d}", r.weight) for r in graph.relations if r.weight > 0)
    if not edges:
        return []
    members: dict[tuple[int, int], list[int]] = defaultdict(list)
    parents: dict[int, int] = {}
    for each in hierarchical_leiden(edges, max_cluster_size=cluster_size, use_modularity=True, seed=SEED):
        members[each.level, each.cluster].append(int(each.node))
        if each.parent_cluster is not None:
            parents[each.cluster] = each.parent_cluster
    order = sorted(members, key=lambda each: (each[0], min(members[each])))
    places = {cluster: place for place, (_, cluster) in enumerate(order)}
    return [
        Community(level, places[parents[cluster]] if cluster in parents else -1, tuple(sorted(members[level, cluster])))
        for level, cluster in order
    ]


def entity_line(entity: Entity) -> str:
    """Return the line that shows an entity in a prompt."""
    kind = f" ({entity.kind})" if entity.kind else ""
    return f"{entity.name}{kind}: {entity.description}" if entity.description else f"{entity.name}{kind}"


def relation_line(graph: Graph, relation: Relation) -> str:
    """Return the line that shows a relation in a prompt."""
    pair = f"{graph.entities[relation.source].name} - {graph.entities[relation.target].name}"
    return f"{pair}: {relation.description}" if relation.description else pair


def first_lines(lines: Sequence[str], most: int) -> list[str]:
    """Return the first lines with at most ``most`` tokens in total, at least one line."""
    kept: list[str] = []
    used = 0
    for line in lines:
        used += count_tokens(line) + 1
        if kept and used > most:
            break
        kept.append(line)
    return kept
