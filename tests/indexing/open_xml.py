"""Word and PowerPoint files from raw XML, part by part, as programs other than the test's library write them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_SCHEMAS = "http://schemas.openxmlformats.org"
NAMESPACES = {
    "w": f"{_SCHEMAS}/wordprocessingml/2006/main",
    "p": f"{_SCHEMAS}/presentationml/2006/main",
    "a": f"{_SCHEMAS}/drawingml/2006/main",
    "r": f"{_SCHEMAS}/officeDocument/2006/relationships",
    "m": f"{_SCHEMAS}/officeDocument/2006/math",
    "c": f"{_SCHEMAS}/drawingml/2006/chart",
    "cx": "http://schemas.microsoft.com/office/drawing/2014/chartex",
    "dgm": f"{_SCHEMAS}/drawingml/2006/diagram",
    "mc": f"{_SCHEMAS}/markup-compatibility/2006",
    "wp": f"{_SCHEMAS}/drawingml/2006/wordprocessingDrawing",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "pic": f"{_SCHEMAS}/drawingml/2006/picture",
    "v": "urn:schemas-microsoft-com:vml",
    "o": "urn:schemas-microsoft-com:office:office",
    "a14": "http://schemas.microsoft.com/office/drawing/2010/main",
    "p188": "http://schemas.microsoft.com/office/powerpoint/2018/8/main",
}
_DECLARED = " ".join(f'xmlns:{prefix}="{uri}"' for prefix, uri in NAMESPACES.items())
_OFFICE = f"{_SCHEMAS}/officeDocument/2006/relationships"
_PACKAGE = f"{_SCHEMAS}/package/2006"


@dataclass(frozen=True)
class Part:
    """A part as (kind of its relationship, name in the package, XML or bytes), and the parts that it refers to."""

    kind: str
    name: str
    content: str | bytes
    parts: Mapping[str, Part] = field(default_factory=dict)


def element(tag: str, inner: str, attributes: str = "") -> str:
    """A root element that declares all prefixes."""
    return f"<{tag} {_DECLARED} {attributes}>{inner}</{tag}>"


def package(main: Part) -> bytes:
    """A file whose main part is ``main``."""
    out = io.BytesIO()
    seen: set[str] = set()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        kind = "wordprocessingml.document" if main.name.startswith("word/") else "presentationml.presentation"
        types = f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        types += '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        types += f'<Override PartName="/{main.name}" ContentType="application/vnd.openxmlformats-officedocument.{kind}'
        types += '.main+xml"/></Types>'
        packed.writestr("[Content_Types].xml", types)
        packed.writestr("_rels/.rels", _links({"r1": main}))
        waiting = [main]
        while waiting:
            part = waiting.pop()
            if part.name in seen:
                continue
            seen.add(part.name)
            packed.writestr(part.name, part.content)
            folder, _, name = part.name.rpartition("/")
            if part.parts:
                packed.writestr(f"{folder}/_rels/{name}.rels", _links(part.parts))
            waiting.extend(part.parts.values())
    return out.getvalue()


def _links(parts: Mapping[str, Part]) -> str:
    inner = "".join(
        f'<Relationship Id="{key}" Type="{_OFFICE}/{part.kind}" Target="/{part.name}"/>' for key, part in parts.items()
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{inner}</Relationships>'


def word(body: str, parts: Mapping[str, Part] | None = None) -> bytes:
    """A Word file of a body in XML."""
    content = element("w:document", f"<w:body>{body}</w:body>")
    return package(Part("officeDocument", "word/document.xml", content, parts or {}))


def word_part(kind: str, inner: str, parts: Mapping[str, Part] | None = None, name: str = "") -> Part:
    """A part of a Word file, such as "comments", with its root element."""
    root = {"header": "w:hdr", "footer": "w:ftr"}.get(kind, f"w:{kind}")
    return Part(kind, f"word/{name or kind}.xml", element(root, inner), parts or {})


def paragraph(text: str, properties: str = "", run: str = "") -> str:
    """A paragraph of one run; ``properties`` and ``run`` are the inner XML of w:pPr and w:rPr."""
    return f"<w:p><w:pPr>{properties}</w:pPr>{words(text, run)}</w:p>"


def words(text: str, properties: str = "") -> str:
    """A run."""
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def table(*rows: Sequence[str]) -> str:
    """A table; each cell is XML of its blocks."""
    inner = "".join(f"<w:tr>{''.join(f'<w:tc>{cell}</w:tc>' for cell in row)}</w:tr>" for row in rows)
    return f"<w:tbl>{inner}</w:tbl>"


def drawing(inner: str, properties: str = "") -> str:
    """A run with a drawing of 3 by 3 cm; ``properties`` are attributes or XML of its wp:docPr."""
    return (
        '<w:r><w:drawing><wp:inline><wp:extent cx="1080000" cy="1080000"/>'
        f'<wp:docPr id="1" name="d">{properties}</wp:docPr><a:graphic><a:graphicData uri="x">{inner}</a:graphicData>'
        "</a:graphic></wp:inline></w:drawing></w:r>"
    )


def deck(*slides: str, parts: Mapping[str, Part] | None = None, main: Mapping[str, Part] | None = None) -> bytes:
    """A presentation; each slide is XML of its shapes, and all refer to ``parts``."""
    links = {f"s{number}": _slide(number, shapes, parts or {}) for number, shapes in enumerate(slides, start=1)}
    ids = "".join(f'<p:sldId id="{256 + number}" r:id="{key}"/>' for number, key in enumerate(links))
    content = element("p:presentation", f"<p:sldIdLst>{ids}</p:sldIdLst>")
    return package(Part("officeDocument", "ppt/presentation.xml", content, {**links, **(main or {})}))


def _slide(number: int, shapes: str, parts: Mapping[str, Part]) -> Part:
    return Part("slide", f"ppt/slides/slide{number}.xml", element("p:sld", tree(shapes)), parts)


def tree(shapes: str) -> str:
    """The shapes of a slide, layout, master or notes page."""
    return f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"


def shape(text: str, holder: str = "", hidden: bool = False) -> str:
    """A shape of one paragraph; ``holder`` is its kind of placeholder."""
    kind = f'<p:ph type="{holder}"/>' if holder else ""
    seen = ' hidden="1"' if hidden else ""
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="s"{seen}/><p:nvPr>{kind}</p:nvPr></p:nvSpPr><p:spPr/>'
        f"<p:txBody>{text if text.startswith('<') else f'<a:p><a:r><a:t>{text}</a:t></a:r></a:p>'}</p:txBody></p:sp>"
    )


def frame(inner: str) -> str:
    """A graphic frame on a slide."""
    return (
        '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="3" name="g"/><p:nvPr/></p:nvGraphicFramePr>'
        f'<a:graphic><a:graphicData uri="x">{inner}</a:graphicData></a:graphic></p:graphicFrame>'
    )


def chart(plots: str, title: str = "") -> Part:
    """A chart part with plots in XML."""
    named = (
        f"<c:title><c:tx><c:rich><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:rich></c:tx></c:title>" if title else ""
    )
    content = element("c:chartSpace", f"<c:chart>{named}<c:plotArea>{plots}</c:plotArea></c:chart>")
    return Part("chart", "word/charts/chart1.xml", content)


def series(name: str, categories: Sequence[str], values: Sequence[str], form: str = "General") -> str:
    """A series of a chart with its saved data."""

    def cache(tag: str, points: Sequence[str], inner: str = "") -> str:
        listed = "".join(f'<c:pt idx="{at}"><c:v>{text}</c:v></c:pt>' for at, text in enumerate(points))
        return f"<c:{tag}Ref><c:f>x</c:f><c:{tag}Cache>{inner}{listed}</c:{tag}Cache></c:{tag}Ref>"

    return (
        f"<c:ser><c:tx>{cache('str', [name])}</c:tx><c:cat>{cache('str', categories)}</c:cat>"
        f"<c:val>{cache('num', values, f'<c:formatCode>{form}</c:formatCode>')}</c:val></c:ser>"
    )
