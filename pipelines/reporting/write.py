"""A report's files: the page, and beside it a folder with the same tables and pictures for other programs."""

from __future__ import annotations

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.page import render
from okralong.pipelines.reporting.report import Report
from okralong.pipelines.reporting.table_files import table_files


def write_report(folder: Folder, name: str, report: Report) -> list[str]:
    """Write the page ``name`` (report.html) into ``folder``, and its files into ``tables`` and ``pictures`` of the
    folder of the page's stem (report/). Returns the paths, the page's first.
    """
    from okralong.pipelines.reporting.pictures import pictures  # brings matplotlib, a second to load

    folder.write_bytes(name, render(report))
    written = [folder.at(name).path]
    beside = folder.at(name.rpartition(".")[0] or f"{name}_files")
    for table in (*report.tables, *report.files_only):
        for file, content in table_files(table).items():
            beside.at("tables").write_bytes(file, content)
            written.append(beside.at("tables", file).path)
    for file, content in pictures(report).items():
        beside.at("pictures").write_bytes(file, content)
        written.append(beside.at("pictures", file).path)
    return written
