"""Which questions have to be asked again, given what changed in the archive. Pure."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from okralong.pipelines.answering.preparation import Prepared
from okralong.pipelines.archive.versions import VersionDiff, diff_versions, read_version
from okralong.pipelines.core.types import ArchiveError


def rests_on_change(scope: tuple[str, ...], doc_ids: tuple[str, ...], diff: VersionDiff) -> bool:
    """Whether an answer may be another now. ``scope`` are the ids and globs that the question names, ``doc_ids`` the
    documents that they are now.

    A question over the whole archive rests on every document. One with a scope rests on its documents, on those that
    its globs would name now and did not before, and on those that they named and that went.
    """
    if not scope:
        return not diff.none
    if not set(doc_ids).isdisjoint((*diff.added, *diff.changed)):
        return True
    return any(gone == entry or fnmatchcase(gone, entry) for gone in diff.removed for entry in scope)


def since_version(prepared: Prepared, version: int) -> tuple[Prepared, VersionDiff]:
    """The same run with only the questions that rest on what changed since ``version``.

    Raises ArchiveError when that version is not there any more, or the archive has none.
    """
    archive = prepared.archive
    if not archive.version:
        raise ArchiveError(
            f"{archive.folder.path} has no versions yet, so nothing is known of what changed in it. Run okralong index "
            "on it once, or leave out --changed-since."
        )
    diff = diff_versions(archive.folder, read_version(archive.folder, version), archive.manifest)
    asked = [one for one in prepared.questions if rests_on_change(one.question.doc_ids, one.doc_ids, diff)]
    unscoped = [one for one in prepared.unscoped if rests_on_change(one[0].doc_ids, (), diff)]
    return replace(prepared, questions=asked, unscoped=unscoped), diff
