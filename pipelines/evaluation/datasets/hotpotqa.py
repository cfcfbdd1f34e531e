"""HotpotQA in the distractor setting: questions over two of ten Wikipedia paragraphs (Yang et al. 2018).

The format and what evidence is stand in ``wiki``; a sentence begins with its own blank, so sentences are joined by
nothing. The set has no sub-questions: what stands nearest is a look-up of each gold title, in the order of the
supporting facts. For a bridge question the second title is what the first paragraph leads to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from okralong.pipelines.evaluation.datasets.fields import Row
from okralong.pipelines.evaluation.datasets.values import DataSet
from okralong.pipelines.evaluation.datasets.wiki import read_wiki, supporting_facts

NAME: Final = "hotpotqa"


def read(path: Path, part: str) -> DataSet:
    """A file such as ``hotpot_dev_distractor_v1.json``. Raises InputError naming file, row and field."""
    return read_wiki(path, NAME, part, "", _titles)


def _titles(row: Row) -> tuple[str, ...]:
    return tuple(dict.fromkeys(title for title, _ in supporting_facts(row)))
