"""Characters of symbol fonts, which have no Unicode of their own in Word files."""

from __future__ import annotations

from typing import Final

_SYMBOL: Final = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼",  # noqa: RUF001
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪",  # noqa: RUF001
    "〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭",
)
"""The font Symbol from 0x20, from 0xA0, and from 0xF1."""
_TABLES: Final[dict[str, dict[int, str]]] = {
    "symbol": {
        start + place: character
        for start, characters in zip((0x20, 0xA0, 0xF1), _SYMBOL, strict=True)
        for place, character in enumerate(characters)
    },
    "wingdings": dict(
        zip(
            [
                0x6C,
                0x6D,
                0x6E,
                0x6F,
                0x71,
                0x72,
                0x9F,
                0xA1,
                0xA7,
                0xA8,
                0xD8,
                0xDF,
                0xE0,
                0xE8,
                0xF0,
                0xFB,
                0xFC,
                0xFD,
                0xFE,
            ],
            "●❍■□❑❒•○▪◻➢←→➔⇨✗✓☒☑",
            strict=True,
        )
    ),
    "wingdings 2": dict(zip([0x4F, 0x50, 0x51, 0x52, 0x53, 0x54, 0x97, 0xA3], "✗✓☒☑☒☒●□", strict=True)),
    "wingdings 3": dict(zip([0x70, 0x71, 0x74, 0x75, 0x7D, 0x84], "▲▼◀▶▶▼", strict=True)),
}
UNKNOWN: Final = "□"
"""What stands for a character that no table has."""


def character(code: int, font: str) -> str:
    """Return the Unicode character of a code in a font; ``UNKNOWN`` if a symbol font's code is not known."""
    table = _TABLES.get(font.lower())
    code = code - 0xF000 if 0xF000 <= code <= 0xF0FF else code
    if table is not None:
        return table.get(code, UNKNOWN)
    return chr(code) if 0x20 <= code < 0xD800 or 0xE000 <= code <= 0x10FFFF else UNKNOWN


def in_symbol_font(text: str, font: str) -> str:
    """Return ``text`` with the characters of symbol fonts replaced."""
    if font.lower() in _TABLES:
        return "".join(each if each.isspace() else character(ord(each), font) for each in text)
    if any("\uf020" <= each <= "\uf0ff" for each in text):  # typed in a symbol font that a style names
        return "".join(character(ord(each), "symbol") if "\uf020" <= each <= "\uf0ff" else each for each in text)
    return text
