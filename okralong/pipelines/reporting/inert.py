"""Self-contained pages without scripts, which cannot load or run anything."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterable

from okralong.pipelines.reporting.rows import plain


def inert_page(title: str, style: str, body: Iterable[str]) -> bytes:
    """Return a page in UTF-8 with these parts of its body, which must be escaped. Only ``style`` is allowed to act."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(title)}</title><style>{style}</style></head><body>"
    )
    return "".join([head, *body, "</body></html>\n"]).encode()


def escaped(words: object) -> str:
    """Return words as HTML, without control characters and marks of direction."""
    return html.escape(plain(words))
