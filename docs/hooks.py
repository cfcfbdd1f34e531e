"""Hooks for MkDocs: generate the reference pages, and add the files outside ``docs`` that pages link to.

Pages link to files of the repository by relative path (``../configs/answer.yaml``). The site has a page for each such
file below ``repository/``, so no link leaves the site or names a server.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

import reference
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parent.parent
ROOT_PAGES: Final = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",
}
"""Top-level pages of the repository, and their names on the site. The start page replaces the README."""
REPOSITORY: Final = "repository"
SHOWN: Final = (".py", ".yaml", ".yml", ".toml", "")
"""Suffixes of files that are shown as a page; others are copied."""
LINK: Final = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^()\s]+)(\))", re.DOTALL)
FENCE: Final = re.compile(r"^```.*?^```[ ]*$", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the reference pages, the pages of the repository's top, and what any page links to outside ``docs``."""
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}", content=text))
    for source, name in ROOT_PAGES.items():
        if files.get_file_from_path(name) is None:
            files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    waiting = [file for file in files if file.is_documentation_page()]
    while waiting:
        page = waiting.pop()
        for target in linked(page.content_string, place_of(page.src_uri)):
            name = site_name(target)
            if name.startswith(f"{REPOSITORY}/") and files.get_file_from_path(name) is None:
                added = _made(config, name, target)
                files.append(added)
                waiting += [added] if added.is_documentation_page() else []
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Replace links to files of the repository by links to their pages."""
    here = place_of(page.file.src_uri)

    def moved(match: re.Match[str]) -> str:
        target, sign, anchor = match[2].partition("#")
        found = resolved(target, here)
        if found is None:
            return match[0]
        name = posixpath.relpath(site_name(found), posixpath.dirname(page.file.src_uri) or ".")
        return f"{match[1]}{name}{sign}{anchor}{match[3]}"

    return _outside_fences(markdown, lambda text: LINK.sub(moved, text))


def place_of(src_uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    for source, name in ROOT_PAGES.items():
        if src_uri == name and name != "index.md":
            return source
    if src_uri.startswith(f"{REPOSITORY}/"):
        place = src_uri.removeprefix(f"{REPOSITORY}/")
        return place if (ROOT / place).is_file() else place.removesuffix(".md")
    return f"docs/{src_uri}"


def site_name(place: str) -> str:
    """Return the site's name of a file or folder of the repository."""
    if place in ROOT_PAGES:
        return ROOT_PAGES[place]
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    file = ROOT / place
    return f"{REPOSITORY}/{place}.md" if file.is_dir() or file.suffix in SHOWN else f"{REPOSITORY}/{place}"


def linked(markdown: str, here: str) -> list[str]:
    """Return the files and folders of the repository that a page links to."""
    found: list[str] = []

    def note(text: str) -> str:
        found.extend(place for match in LINK.finditer(text) if (place := resolved(match[2].partition("#")[0], here)))
        return text

    _outside_fences(markdown, note)
    return found


def resolved(target: str, here: str) -> str | None:
    """Return the path in the repository that a link on the page at ``here`` names, or None for other links."""
    if not target or ":" in target or target.startswith("/"):
        return None
    place = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    return place if (ROOT / place).exists() and not place.startswith("..") else None


def _outside_fences(markdown: str, change: Any) -> str:
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def _made(config: Any, name: str, place: str) -> File:
    file = ROOT / place
    if file.is_dir():
        names = sorted(
            each.name for each in file.iterdir() if each.is_file() and each.suffix in (*SHOWN, ".md", ".svg")
        )
        lines = [f"- [{each}]({posixpath.basename(place)}/{each})" for each in names]
        return File.generated(config, name, content="\n".join([f"# {place}", "", *lines, ""]))
    if file.suffix in SHOWN:
        language = {".py": "python", "": "text"}.get(file.suffix, "yaml")
        text = file.read_text(encoding="utf-8")
        return File.generated(config, name, content=f"# {place}\n\n````{language}\n{text}\n````\n")
    return File.generated(config, name, abs_src_path=str(file))
