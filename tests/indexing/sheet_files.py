"""Workbooks written part by part, as spreadsheet programs and scripts write them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.microsoft.com/office/2017/10/relationships"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"
CALCULATED = '<calcPr calcId="191029"/>'


def relations(**targets: str) -> str:
    """A part of relations; the name of each is its kind, the value its target."""
    types = {kind: f"{OFFICE if kind == 'threadedComment' else RELATIONS}/{kind}" for kind in targets}
    listed = "".join(
        f'<Relationship Id="{kind}{n}" Type="{types[kind]}" Target="{to}"/>'
        for n, (kind, to) in enumerate(targets.items(), start=1)
    )
    return f'<Relationships xmlns="{PACKAGE}">{listed}</Relationships>'


def workbook(
    *sheets: str,
    states: Mapping[int, str] = {},
    formats: tuple[str, ...] = (),
    strings: str = "",
    settings: str = CALCULATED,
    parts: Mapping[str, str] = {},
    main: str = MAIN,
) -> bytes:
    """A workbook of the given sheets, each XML between ``<worksheet>`` and its end, called One, Two and so on.

    Cells have the format ``formats[s - 1]`` for ``s`` from 1.
    """
    names = ("One", "Two", "Three", "Four")
    listed = "".join(
        f'<sheet name="{names[n]}" sheetId="{n + 1}" state="{states.get(n, "visible")}" r:id="s{n}"/>'
        for n in range(len(sheets))
    )
    targets = "".join(
        f'<Relationship Id="s{n}" Type="{RELATIONS}/worksheet" Target="worksheets/sheet{n + 1}.xml"/>'
        for n in range(len(sheets))
    )
    codes = "".join(
        f'<numFmt numFmtId="{164 + n}" formatCode="{code.replace("&", "&amp;").replace(chr(34), "&quot;")}"/>'
        for n, code in enumerate(formats)
    ).replace("[<", "[&lt;")
    styles = "".join(f'<xf numFmtId="{164 + n}"/>' for n in range(len(formats)))
    kinds = {"workbook": "sheet.main", "styles": "styles", "sharedStrings": "sharedStrings"}
    overrides = "".join(
        f'<Override PartName="/xl/{part}.xml" ContentType="{TYPES}.{kind}+xml"/>'
        for part, kind in [*kinds.items(), *((f"worksheets/sheet{n + 1}", "worksheet") for n in range(len(sheets)))]
    )
    content = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
            f'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>{overrides}</Types>'
        ),
        "_rels/.rels": relations(officeDocument="xl/workbook.xml"),
        "xl/workbook.xml": (
            f'<workbook xmlns="{main}" xmlns:r="{RELATIONS}"><sheets>{listed}</sheets>{settings}</workbook>'
        ),
        "xl/_rels/workbook.xml.rels": (
            f'<Relationships xmlns="{PACKAGE}">{targets}'
            f'<Relationship Id="st" Type="{RELATIONS}/styles" Target="/xl/styles.xml"/>'
            f'<Relationship Id="ss" Type="{RELATIONS}/sharedStrings" Target="sharedStrings.xml"/></Relationships>'
        ),
        "xl/styles.xml": (
            f'<styleSheet xmlns="{main}"><numFmts>{codes}</numFmts><cellXfs><xf numFmtId="0"/>{styles}</cellXfs>'
            "</styleSheet>"
        ),
        "xl/sharedStrings.xml": f'<sst xmlns="{main}">{strings}</sst>',
        **{
            f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{main}" xmlns:r="{RELATIONS}">{sheet}</worksheet>'
            for n, sheet in enumerate(sheets, start=1)
        },
        **parts,
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in content.items():
            packed.writestr(name, text)
    return out.getvalue()


def rows(*lines: str, first: int = 1, hidden: tuple[int, ...] = ()) -> str:
    """Rows of text and numbers, one a string with cells between bars; a cell with ``<`` is XML of a cell's content."""
    said = []
    for number, line in enumerate(lines, start=first):
        cells = []
        for column, cell in enumerate(line.split("|")):
            at = f"{chr(65 + column)}{number}"
            text = cell.strip()
            if text.startswith("<"):
                cells.append(f'<c r="{at}"{text[1:]}')
            elif text.replace(".", "").replace("-", "").isdigit():
                cells.append(f'<c r="{at}"><v>{text}</v></c>')
            elif text:
                cells.append(f'<c r="{at}" t="str"><v>{text}</v></c>')
        out = ' hidden="1"' if number in hidden else ""
        said.append(f'<row r="{number}"{out}>{"".join(cells)}</row>')
    return f"<sheetData>{''.join(said)}</sheetData>"
