"""Make the documents of ``benchmarks.languages`` from manuals in Debian packages.

    dpkg-deb -x PACKAGE.deb PACKAGES/NAME      # for each package, NAME is the package's name
    python -m benchmarks.language_texts PACKAGES TEXTS

The packages are of Debian 12: debian-handbook (11.20220922), debian-reference-LANGUAGE (2.100),
libreoffice-help-LANGUAGE and gimp-help-LANGUAGE, for de, fr, es, ja and zh-cn. Their licences are GPL-2+ and
CC-BY-SA-3.0, GPL-2+, MPL-2.0 and GFDL-1.2+. Pages that are short or mostly not translated are left out, and
``sources.json`` names the files and hash of each document.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import py3langid
from selectolax.lexbor import LexborHTMLParser

HANDBOOK: Final = {"de": "de-DE", "fr": "fr-FR", "es": "es-ES", "ja": "ja-JP", "zh": "zh-CN"}
PACKAGE: Final = {"de": "de", "fr": "fr", "es": "es", "ja": "ja", "zh": "zh-cn"}
DENSE: Final = ("ja", "zh")
BLOCKS: Final = "h1,h2,h3,h4,h5,p,li,pre,td,th,dt,dd"


def text_of(page: Path) -> str:
    """Return the blocks of a page, with blank lines between them."""
    tree = LexborHTMLParser(page.read_text("utf-8", "replace"))
    for node in tree.css("script,style,nav,.docnav,.navheader,.navfooter,.toc"):
        node.decompose()
    body, out = tree.css_first("body"), []
    for node in body.css(BLOCKS) if body is not None else ():
        if node.tag in ("li", "td", "th", "dd", "dt") and node.css_first("p"):
            continue
        words = node.text() if node.tag == "pre" else re.sub(r"\s+", " ", node.text()).strip()
        if words.strip():
            out.append("#" * int(node.tag[1]) + " " + words if re.fullmatch("h[1-5]", node.tag) else words)
    return "\n\n".join(out) + "\n"


def translated(text: str, language: str, prose: bool) -> float:
    """Return the share of paragraphs in the language; ``prose`` leaves out commands."""
    least = 30 if language in DENSE else 100
    parts = [part for part in text.split("\n\n") if len(part) > least]
    parts = [part for part in parts if not re.search(r"[$#]\s|\n", part)] if prose else parts
    return sum(py3langid.classify(part)[0] == language for part in parts) / max(1, len(parts))


def chapters(folder: Path) -> Iterator[list[Path]]:
    """Yield the pages of each chapter of the handbook, in the order of its index."""
    index = LexborHTMLParser((folder / "index.html").read_text("utf-8"))
    links = ((link.attributes.get("href") or "").partition("#")[0] for link in index.css("a"))
    pages = [name for name in dict.fromkeys(links) if name.endswith(".html") and "/" not in name]
    group: list[Path] = []
    for name in pages:
        if name == "index.html" or not (folder / name).exists():
            continue
        if not name.startswith("sect.") and group:
            yield group
            group = []
        group.append(folder / name)
    if group:
        yield group


def documents(packages: Path, language: str) -> Iterator[tuple[str, str, list[Path]]]:
    """Yield name, text and pages of each document of a language."""
    for pages in chapters(packages / "debian-handbook/usr/share/doc/debian-handbook/html" / HANDBOOK[language]):
        text = "\n\n".join(map(text_of, pages))
        if len(text) >= 8000 and translated(text, language, prose=True) >= 0.85:
            yield f"handbook-{pages[0].stem}.md", text, pages
    reference = packages / f"debian-reference-{PACKAGE[language]}/usr/share/debian-reference"
    for page in sorted(reference.glob("ch*.html")):
        text = text_of(page)
        if translated(text, language, prose=True) >= 0.7:
            yield f"reference-{page.name.partition('.')[0]}.md", text, [page]
    shortest = 3000 if language in DENSE else 8000
    for name, pattern, least in (
        ("libreoffice", "**/text/s*/0*/*.html", 25_000),
        ("gimp", "**/*.html", 17_000),
    ):
        for page in sorted((packages / f"{name}-help-{PACKAGE[language]}").glob(pattern)):
            if page.stat().st_size < least or "sbasic" in str(page):
                continue
            text = text_of(page)
            if len(text) >= shortest and translated(text, language, prose=False) >= 0.7:
                yield f"{name}-{page.stem}.md", text, [page]


def main() -> None:
    """Write the documents and ``sources.json``."""
    packages, texts = map(Path, sys.argv[1:3])
    sources = {}
    for language in HANDBOOK:
        (texts / language).mkdir(parents=True, exist_ok=True)
        for name, text, pages in documents(packages, language):
            (texts / language / name).write_text(text, encoding="utf-8")
            digest = hashlib.sha256(text.encode()).hexdigest()
            sources[f"{language}/{name}"] = {"files": [page.name for page in pages], "sha256": digest}
    (texts / "sources.json").write_text(json.dumps(sources, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
