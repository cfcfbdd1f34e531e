"""What document text must not spell: tags of our own prompts, and the tokens that chat models are steered by.

Servers turn a special token into its number wherever it stands in a message, also inside a quotation, so a document
that spells ``<|im_end|>`` would end the turn that quotes it.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import Final

OPENINGS: Final = "<\uff1c\ufe64"
"""The sign that opens a tag, in its widths."""

BARS: Final = "|\uff5c"
"""The sign that stands beside it in most chat models' tokens; the wide one in DeepSeek's (``<\uff5cUser\uff5c>``)."""

BRACKETED: Final = re.compile(
    r"\[(?=\s*+(?:/\s*+)?(?:INST|THINK|ARGS|IMG|[gs]MASK|[A-Z]++_[A-Z_\d]++)\s*+\])", re.IGNORECASE
)
"""Mistral's ``[INST]``, ``[TOOL_CALLS]``, ``[control_8]`` and others of that form, GLM's ``[gMASK]``. Possessive: a
bracket before ten thousand blanks is not tried ten thousand times."""

_WORDS: Final = """
s bos eos unk pad mask sep cls sop eop eoh eoa eom eot startofturn endofturn think sys unused reserved reponame filename
"""
_NAMES: Final = frozenset(_WORDS.split())
"""Letters of the tokens that have no underscore, from the vocabularies of Llama 2, Gemma, InternLM, GLM, SmolLM2."""

_OURS: Final = "passage"
_LONGEST: Final = 40
"""Characters of a tag that are looked at, those that print nothing not counted; ours."""

_LOOKALIKES: Final = str.maketrans(
    "\u0430\u0251\u03b1\u0435\u0440\u03c1\u0455\ua731\u0261\u0581\u0456\u043e\u0441", "aaaeppssggioc"
)
"""Cyrillic, Greek and other letters that look like those of our tag, which normal forms leave as they are."""

_WORD_AND_UNDERSCORE: Final = re.compile(r"/?[a-z][a-z\d]*(?:[_\u2581][a-z\d]+)+/?>", re.IGNORECASE)
"""Written as tokens are, letter for letter: ``<tool_call>``, ``<start_of_image>``, ``<reserved_106>``."""


def opens_tag(following: str) -> bool:
    """Whether an opening sign and what follows could be read as a tag, however spaced, accented or half hidden."""
    head, closed, _ = _shown(following).partition(">")
    letters = "".join(c for c in head.casefold().translate(_LOOKALIKES) if "a" <= c <= "z")
    if letters.startswith(_OURS):
        return True
    return (bool(closed) and letters in _NAMES) or _WORD_AND_UNDERSCORE.match(following, 0, _LONGEST) is not None


def _shown(text: str) -> str:
    """The first characters of ``text`` in their normal form, without those that print nothing."""
    visible = (c for c in text if unicodedata.category(c)[0] not in "ZMC")
    return unicodedata.normalize("NFKD", "".join(islice(visible, _LONGEST)))
