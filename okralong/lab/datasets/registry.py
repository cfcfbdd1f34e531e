"""The adapter of each format, and ``read_dataset``, which reads any data set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from okralong.lab.datasets.base import DataSet
from okralong.lab.datasets.catalog import DataSource
from okralong.lab.datasets.document_files import (
    read_financebench,
    read_mudabench,
    read_tatdqa,
    read_uda_documents,
)
from okralong.lab.datasets.erc import read_erc
from okralong.lab.datasets.financial import read_financial_qa, read_loong, read_loong_finance
from okralong.lab.datasets.finqa import read_finqa
from okralong.lab.datasets.long_texts import (
    read_longbench_v2,
    read_multihop_rag,
    read_narrativeqa,
    read_quality,
    read_triviaqa,
)
from okralong.lab.datasets.other import read_longbench, read_longbench_rows, read_own
from okralong.lab.datasets.papers import read_pubmedqa, read_qasper, read_qasper_annotations, read_qmsum
from okralong.lab.datasets.placed import read_filings_questions
from okralong.lab.datasets.report_texts import read_docfinqa, read_ledger, read_t2_ragbench
from okralong.lab.datasets.reports import read_reports_set
from okralong.lab.datasets.tatqa import read_tatqa
from okralong.lab.datasets.uda import read_uda_bench, read_uda_csv
from okralong.lab.datasets.wiki import read_hotpotqa, read_hotpotqa_pooled, read_musique, read_squad, read_twowiki
from okralong.pipelines.core.types import InputError

FORMATS: Final[dict[str, Callable[[Path, str], DataSet]]] = {
    "hotpotqa": read_hotpotqa,
    "2wikimultihopqa": read_twowiki,
    "musique": read_musique,
    "hotpotqa_pooled": read_hotpotqa_pooled,
    "squad": read_squad,
    "qmsum": read_qmsum,
    "longbench": read_longbench,
    "longbench_rows": read_longbench_rows,
    "longbench_v2": read_longbench_v2,
    "narrativeqa": read_narrativeqa,
    "quality": read_quality,
    "triviaqa": read_triviaqa,
    "multihop_rag": read_multihop_rag,
    "tatqa": read_tatqa,
    "tatdqa": read_tatdqa,
    "finqa": read_finqa,
    "uda_documents": read_uda_documents,
    "financebench": read_financebench,
    "enterprise_rag_challenge": read_erc,
    "mudabench": read_mudabench,
    "t2_ragbench": read_t2_ragbench,
    "docfinqa": read_docfinqa,
    "ledger": read_ledger,
    "loong": read_loong,
    "uda_csv": read_uda_csv,
    "uda_bench": read_uda_bench,
    "qasper": read_qasper,
    "qasper_annotations": read_qasper_annotations,
    "pubmedqa": read_pubmedqa,
    "financial_qa_10k": read_financial_qa,
    "loong_finance": read_loong_finance,
    "reports": read_reports_set,
    "filings_questions": read_filings_questions,
    "own": read_own,
}
"""The adapters by the ``format`` of a source. Each maps a path and the name of a part to a data set."""


class MissingSet(InputError):
    """A set of which neither file nor hub is available. The message says where to get it."""


def read_dataset(source: DataSource, data: Path) -> DataSet:
    """Read a source's data set from the folder ``data``, or from its hub if the file does not exist.

    The result has the source's ``name``. Raises MissingSet if neither file nor hub is available, InputError if the
    format is unknown or the file malformed.
    """
    if source.format not in FORMATS:
        raise InputError(
            f"The source {source.name!r} ({source.part}) has the format {source.format!r}, which has no adapter. "
            f"Formats: {', '.join(FORMATS)}."
        )
    return replace(FORMATS[source.format](_path(source, data), source.part), name=source.name)


def _path(source: DataSource, data: Path) -> Path:
    path = data / source.path
    if not path.exists() and source.hub is not None:
        return _fetched(source, source.hub, path)
    for needed in (path, *([data / source.beside] if source.beside else [])):
        if not needed.exists():
            raise MissingSet(f"{needed} does not exist{_remedy(source)}")
    return path


def _remedy(source: DataSource) -> str:
    if source.origin is None:
        return (
            f", and the source {source.name!r} ({source.part}) names no hub to fetch it from. Give the folder that "
            "holds the data sets, or put the file there."
        )
    of = source.origin
    return f". Get {of.title} (licence: {of.licence}; {of.size}) from {of.address}, and put it there."


def _fetched(source: DataSource, hub: str, path: Path) -> Path:
    owner, _, rest = hub.partition("/")
    repository, _, file = rest.partition("/")
    if not (owner and repository and file):
        raise InputError(f"The source {source.name!r} has the hub {hub!r}; it must be owner/repository/file.")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return Path(hf_hub_download(f"{owner}/{repository}", file, repo_type="dataset"))
    except (OSError, HfHubHTTPError, ValueError) as error:
        raise MissingSet(
            f"{path} does not exist, and {hub} cannot be fetched from the hub ({type(error).__name__}: {error}). Put "
            "the file in the data folder, or run again where the hub can be reached."
        ) from error
