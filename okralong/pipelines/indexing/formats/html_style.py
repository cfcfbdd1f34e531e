"""Tell from attributes and style sheets which elements a viewer hides, and how it sets the others apart.

Only what decides about text is read: inline styles, and rules of ``<style>`` blocks whose selector is a tag, a class or
an id, or a tag with one of both. Rules of other selectors hide nothing; where they show what a simple rule hides, the
text is kept. Time is linear in the size of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

_Attributes = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Effect:
    """What the style of an element does to its text.

    ``gone``: the element and all within is hidden. ``hidden``, ``tiny`` (a font of no size) and ``pre`` are inherited,
    None where the style does not say it. ``display`` is the kind of box, "" for that of the tag. ``apart``: set off
    from its neighbours, if it is ``wide`` also without text; ``flex``: its children are. ``unmarked``: a list without
    marks. ``pale``: white or transparent text, ``backed``: before a background that is not white, or over something
    else; both are inherited, and pale text that is not backed is not seen.
    """

    gone: bool = False
    hidden: bool | None = None
    tiny: bool | None = None
    display: str = ""
    apart: bool = False
    wide: bool = False
    flex: bool = False
    pre: bool | None = None
    raised: bool = False
    struck: bool = False
    unmarked: bool = False
    pale: bool | None = None
    backed: bool | None = None


NOTHING: Final = Effect()
_GONE: Final = Effect(gone=True)

_PROPERTIES: Final = """
display visibility font-size font opacity overflow overflow-x overflow-y height max-height width max-width position left
top text-indent clip clip-path white-space vertical-align content-visibility float margin-left margin-right padding-left
padding-right transform text-decoration text-decoration-line list-style list-style-type color background
background-color background-image
"""
_TOLD: Final = frozenset(_PROPERTIES.split())
_WIDE_PX: Final = 1280.0
"""Width of the window that media queries are answered for. # project default"""
_UNSEEN_PX: Final = 2.0
"""Text or boxes smaller than this are not seen. # project default"""
_APART_PX: Final = 4.0
"""About the width of a blank. # project default"""
_FAR_PX: Final = -900.0
_MOST_CACHED: Final = 20_000
_MOST_KEY_CHARS: Final = 1_000


class Styles:
    """The style of a page: its ``sheets`` are the contents of its ``<style>`` blocks."""

    def __init__(self, sheets: Iterable[str] = (), is_complete: bool = True) -> None:
        self._knows_backgrounds = is_complete
        self._rules: dict[str, dict[str, _Value]] = {}
        self._may_show: set[str] = set()
        self._order = 0
        for sheet in sheets:
            for selectors, declarations in _rules(sheet):
                self._add(selectors, _declared(declarations))
        self._cache: dict[tuple[str, ...], Effect] = {}

    def _add(self, selectors: str, said: Mapping[str, str]) -> None:
        if not said:
            return
        self._order += 1
        for selector in selectors.split(","):
            simple = _SIMPLE.fullmatch(selector.strip())
            if simple is None:
                self._knows_backgrounds = self._knows_backgrounds and not _background(said)
                if _shows(said) and not _ON_ACTION.search(selector):
                    self._may_show.update(_NAMES.findall(_SUBJECT.split(selector.strip())[-1]))
                continue
            rank = 2 if "#" in selector else 1 if "." in selector else 0
            name = f"{(simple[1] or '').lower().replace('*', '')}{simple[2] or ''}"
            kept = self._rules.setdefault(name, {})
            for key, value in said.items():
                one = _Value(value.endswith("!important"), rank, self._order, value.removesuffix("!important").strip())
                if key not in kept or one.wins(kept[key]):
                    kept[key] = one

    def effect(self, tag: str, attributes: _Attributes) -> Effect:
        """Return the effect of an element's own style."""
        inline, classes, name = attributes.get("style"), attributes.get("class"), attributes.get("id")
        is_hidden = "hidden" in attributes
        if not attributes.keys().isdisjoint(_COLOR_ATTRIBUTES):
            colors = (f"{_COLOR_ATTRIBUTES[key]}:{attributes[key]}" for key in _COLOR_ATTRIBUTES if key in attributes)
            inline = ";".join([*colors, inline or ""])
        if not (inline or is_hidden or self._rules):
            return NOTHING
        if not self._rules:
            classes = name = None
        key = (tag, inline or "", classes or "", name or "", "hidden" if is_hidden else "")
        if (known := self._cache.get(key)) is not None:
            return known
        found = self._effect(tag, inline or "", (classes or "").split(), name or "", is_hidden)
        if sum(map(len, key)) <= _MOST_KEY_CHARS:
            if len(self._cache) >= _MOST_CACHED:
                self._cache.clear()
            self._cache[key] = found
        return found

    def _effect(self, tag: str, inline: str, classes: list[str], name: str, is_hidden: bool) -> Effect:
        said: dict[str, _Value] = {}
        keys = ["", tag, *(f".{one}" for one in classes), *(f"{tag}.{one}" for one in classes)]
        if name:
            keys += [f"#{name}", f"{tag}#{name}"]
        for key in keys:
            for prop, value in self._rules.get(key, {}).items():
                if prop not in said or value.wins(said[prop]):
                    said[prop] = value
        own = _declared(inline)
        hides_by_rule = bool(said)
        for prop, text in own.items():
            one = _Value(text.endswith("!important"), 3, 0, text.removesuffix("!important").strip())
            if prop not in said or one.wins(said[prop]):
                said[prop] = one
        if not said and not is_hidden:
            return NOTHING
        values = {prop: value.text for prop, value in said.items()}
        if is_hidden and "display" not in own:
            return _GONE
        effect = _effect_of(values)
        is_hidden = hides_by_rule and bool(effect.gone or effect.hidden)
        if is_hidden and any(key in self._may_show for key in keys):
            effect = _effect_of({prop: text.removesuffix("!important").strip() for prop, text in own.items()})
        return effect if self._knows_backgrounds else replace(effect, pale=None)


@dataclass(frozen=True, slots=True)
class _Value:
    important: bool
    rank: int
    order: int
    text: str

    def wins(self, other: _Value) -> bool:
        return (self.important, self.rank, self.order) >= (other.important, other.rank, other.order)


_SIMPLE: Final = re.compile(r"([A-Za-z][\w:-]*|\*)?([.#][\w-]+)?")
_NAMES: Final = re.compile(r"[.#][\w-]+")
_SUBJECT: Final = re.compile(r"[\s>+~]+")
_ON_ACTION: Final = re.compile(r":(?:hover|focus|active|target|checked)")


def _declared(text: str) -> dict[str, str]:
    """Return the declarations that matter, lower case, the last of each property."""
    found = {}
    for part in text.split(";"):
        name, colon, value = part.partition(":")
        if colon and (name := name.strip().lower()) in _TOLD:
            value = value.strip().lower()
            if "!" in value:
                value = f"{value.partition('!')[0].strip()}{'!important' if 'important' in value else ''}"
            if value:
                found[name] = value
    return found


def _shows(said: Mapping[str, str]) -> bool:
    one = {prop: text.removesuffix("!important") for prop, text in said.items()}
    effect = _effect_of(one)
    shown = {"display", "visibility", "opacity", "height", "max-height", "left", "top", "clip", "overflow", "width"}
    return not effect.gone and not effect.hidden and bool(shown & one.keys())


def _effect_of(said: Mapping[str, str]) -> Effect:
    display = said.get("display", "")
    if display == "none" or _is_unseen(said):
        return _GONE
    visibility = said.get("visibility")
    size = said.get("font-size")
    if size is None and (font := said.get("font")):
        size = match[0] if (match := _FONT_SIZE.search(font)) else "medium"
    lines = said.get("text-decoration", "") + said.get("text-decoration-line", "")
    width = _px(said.get("width", ""))
    edges = (_px(said.get(name, "")) for name in ("margin-left", "margin-right", "padding-left", "padding-right"))
    raised = said.get("vertical-align") in ("super", "text-top")
    if said.get("position") == "relative" and (top := _px(said.get("top", ""))) is not None:
        raised = raised or _FAR_PX < top < 0
    boxed = display in ("inline-block", "inline-table", "inline-flex", "inline-grid")
    return Effect(
        hidden=None if visibility is None else visibility in ("hidden", "collapse"),
        tiny=None if size is None else _is_tiny(size),
        display=_DISPLAYS.get(display, ""),
        apart=(boxed and (width is None or width >= _APART_PX))
        or said.get("float", "none") != "none"
        or said.get("position") in ("absolute", "fixed")
        or any(edge is not None and edge >= _APART_PX for edge in edges),
        wide=boxed and width is not None and width >= _APART_PX,
        flex=display in ("flex", "grid", "inline-flex", "inline-grid"),
        pre=_PRE_KINDS.get(said.get("white-space", "")),
        raised=raised,
        struck="line-through" in lines,
        pale=None if (color := said.get("color", "inherit")) in _INHERITED else _is_pale(color),
        backed=True if said.get("position") in ("absolute", "fixed") else _background(said),
        unmarked="none" in said.get("list-style", "") or said.get("list-style-type") == "none",
    )


_COLOR_ATTRIBUTES: Final = {"bgcolor": "background", "background": "background-image", "color": "color"}
_INHERITED: Final = frozenset({"inherit", "unset", "currentcolor", "initial", "revert"})
_HEX: Final = re.compile(r"#([0-9a-f]{3}|[0-9a-f]{6})")
_RGB: Final = re.compile(r"rgba?\(\s*(\d{1,3})[\s,]+(\d{1,3})[\s,]+(\d{1,3})(?:[\s,/]+([\d.]{1,6}))?\s*\)")
_PALE: Final = 250
"""Least red, green and blue of a colour that is taken for white. # project default"""


def _is_pale(color: str) -> bool:
    """Return whether a colour is white or transparent."""
    if color in ("white", "transparent", "snow", "ghostwhite", "floralwhite"):
        return True
    if match := _HEX.fullmatch(color):
        digits = match[1] if len(match[1]) == 6 else "".join(2 * digit for digit in match[1])
        return all(int(digits[at : at + 2], 16) >= _PALE for at in (0, 2, 4))
    if match := _RGB.fullmatch(color):
        is_clear = bool(match[4]) and match[4].strip("0.") == ""
        return is_clear or all(int(channel) >= _PALE for channel in match.groups()[:3])
    return False


def _background(said: Mapping[str, str]) -> bool | None:
    """Return whether a background other than white is set, None if none is."""
    told = [said[name] for name in ("background", "background-color", "background-image") if name in said]
    told = [value for value in told if value not in (*_INHERITED, "none", "transparent", "")]
    if not told:
        return None
    return not all(_is_pale(value.split(" ")[0] if "(" not in value else value) for value in told)


_PRE_KINDS: Final = {"pre": True, "normal": False, "nowrap": False}
"""Only these: whole filings are set in "pre-wrap", where the blanks of the markup are of no concern."""
_DISPLAYS: Final = {
    "block": "block",
    "flex": "block",
    "grid": "block",
    "flow-root": "block",
    "list-item": "block",
    "inline": "inline",
    "table": "table",
    "inline-table": "table",
    "table-row": "row",
    "table-cell": "cell",
    "table-caption": "caption",
}


def _is_unseen(said: Mapping[str, str]) -> bool:
    if (opacity := said.get("opacity")) is not None and _ZERO.fullmatch(opacity):
        return True
    if said.get("content-visibility") == "hidden" or "scale(0)" in said.get("transform", ""):
        return True
    clipped = any(said.get(name) in ("hidden", "clip") for name in ("overflow", "overflow-x", "overflow-y"))
    if clipped:
        sizes = [_px(said.get(name, "")) for name in ("height", "max-height", "width", "max-width")]
        if any(size is not None and 0 <= size < _UNSEEN_PX for size in sizes):
            return True
    if said.get("position") in ("absolute", "fixed"):
        places = [_px(said.get(name, "")) for name in ("left", "top")]
        if any(place is not None and place <= _FAR_PX for place in places):
            return True
        if _NO_CLIP.search(said.get("clip", "")) or _NO_CLIP_PATH.search(said.get("clip-path", "")):
            return True
    indent = _px(said.get("text-indent", ""))
    return indent is not None and indent <= _FAR_PX


_ZERO: Final = re.compile(r"0*\.?0*%?(?<=[0%])")
_NO_CLIP: Final = re.compile(r"rect\(\s*([01](?:px)?)[\s,]+[01](?:px)?[\s,]+[01](?:px)?[\s,]+[01](?:px)?\s*\)")
_NO_CLIP_PATH: Final = re.compile(r"inset\(\s*(?:50|100)%")
_FONT_SIZE: Final = re.compile(r"(?<![\w.-])\d*\.?\d+(?:px|pt|em|rem|%)?(?=[\s/]|$)(?!\s*\d)")
_LENGTH: Final = re.compile(r"([+-]?\d*\.?\d+)\s*(px|pt|em|rem|ex|in|cm|mm|%|vw|vh)?")
_PX: Final = {"px": 1.0, "pt": 4 / 3, "em": 16.0, "rem": 16.0, "ex": 8.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "": 1.0}


def _px(value: str) -> float | None:
    """Return a length in pixels, None for other values; shares count as pixels only where they are 0."""
    match = _LENGTH.fullmatch(value) if value else None
    if match is None or len(match[1]) > 20:
        return None
    number, unit = float(match[1]), match[2] or ""
    if unit in _PX:
        return number * _PX[unit]
    return 0.0 if number == 0 else None


def _is_tiny(size: str) -> bool | None:
    """Return whether a font has no visible size; None if it depends on the outer size."""
    match = _LENGTH.fullmatch(size)
    if match is None or len(match[1]) > 20:
        return None if size in ("larger", "smaller", "inherit", "unset") else False
    if float(match[1]) == 0:
        return True
    unit = match[2] or ""
    if unit in ("em", "%", "ex"):
        return None
    return float(match[1]) * _PX.get(unit, 1.0) < _UNSEEN_PX


# Style sheets.

_COMMENT: Final = re.compile(r"/\*(?>(?:[^*]|\*(?!/))*)(?:\*/|$)")
_MEDIA_WIDTH: Final = re.compile(r"(min|max)-width\s*:\s*([\d.]+)\s*(px|em|rem)?")


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations of the rules that apply to a screen."""
    text = _COMMENT.sub(" ", sheet)
    at = 0
    while (start := text.find("{", at)) >= 0:
        head = text[at:start].rpartition(";")[2].rpartition("}")[2].strip().removeprefix("<!--").strip()
        if head.startswith("@"):
            at = start + 1 if _applies(head.lower()) else _end_of_block(text, start)
            continue
        end = text.find("}", start)
        end = len(text) if end < 0 else end
        yield head, text[start + 1 : end]
        at = end + 1


def _applies(head: str) -> bool:
    if head.startswith(("@supports", "@layer")):
        return True
    if not head.startswith("@media"):
        return False
    return any(_matches(query) for query in head.removeprefix("@media").split(","))


def _matches(query: str) -> bool:
    if any(word in query for word in ("print", "speech", "dark", "reduce", "not ", "height", "orientation", "hover")):
        return False
    for kind, number, unit in _MEDIA_WIDTH.findall(query):
        try:
            width = float(number) * (1.0 if unit in ("px", "") else 16.0)
        except ValueError:
            return False
        if (kind == "min" and width > _WIDE_PX) or (kind == "max" and width < _WIDE_PX):
            return False
    return True


def _end_of_block(text: str, start: int) -> int:
    """Return the offset behind the block that begins at ``start``."""
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(text)


_BRACE: Final = re.compile(r"[{}]")
