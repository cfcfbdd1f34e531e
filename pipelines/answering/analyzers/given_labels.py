"""Labels that a file gives: gold ones in an ablation, or those of somebody's own analyzer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from okralong.pipelines.answering.analysis import EVIDENCE, PATTERNS, TYPES, AnalysisInput, make_analysis
from okralong.pipelines.core.types import Analysis, ConfigError

Labels = tuple[str, str, bool]
"""Type, pattern, and whether the primary chunks hold the evidence."""


@dataclass(frozen=True)
class GivenLabels:
    """Says what the file says of a query_id, as if it were sure. Asking it of another question raises KeyError."""

    labels: Mapping[str, Labels]
    name: str = "labels"

    @classmethod
    def load(cls, path: str | Path) -> GivenLabels:
        """From a jsonl file of query_id, type, pattern and evidence. Raises ConfigError naming the line."""
        file = Path(path).expanduser()
        if not file.is_file():
            raise ConfigError(f"The labels file {file} does not exist. Check analyzer.labels.")
        found: dict[str, Labels] = {}
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                row = json.loads(line)
                kind, pattern, evidence = row["type"], row["pattern"], row["evidence"]
                if kind not in TYPES or pattern not in PATTERNS or not isinstance(evidence, bool):
                    raise ValueError(f"type, pattern and evidence are {kind!r}, {pattern!r} and {evidence!r}")
                found[str(row["query_id"])] = (kind, pattern, evidence)
            except (ValueError, KeyError, TypeError) as error:
                raise ConfigError(
                    f"{file}, line {number} has no labels: {type(error).__name__}: {error}. A line has query_id, type "
                    f"(one of {', '.join(TYPES)}), pattern (one of {', '.join(PATTERNS)}) and evidence (true or false)."
                ) from error
        return cls(found)

    def analyze(self, batch: Sequence[AnalysisInput]) -> list[Analysis]:
        """See ``Analyzer``."""
        return [self._said(asked) for asked in batch]

    def _said(self, asked: AnalysisInput) -> Analysis:
        kind, pattern, evidence = self.labels[asked.query_id]
        held = EVIDENCE[0 if evidence else 1]
        chosen = ((TYPES, kind), (PATTERNS, pattern), (EVIDENCE, held))
        types, patterns, holds = ({label: float(label == one) for label in every} for every, one in chosen)
        return make_analysis(types, patterns, holds, self.name)


def write_labels(path: Path, labels: Iterable[tuple[str, Labels]]) -> None:
    """Write a file that ``GivenLabels.load`` reads."""
    rows = (
        {"query_id": query_id, "type": kind, "pattern": pattern, "evidence": evidence}
        for query_id, (kind, pattern, evidence) in labels
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def labels_digest(path: str | Path) -> str:
    """A hash of the file's content. Raises ConfigError when it is missing."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise ConfigError(f"The labels file {file} does not exist. Check analyzer.labels.")
    return hashlib.sha256(file.read_bytes()).hexdigest()
