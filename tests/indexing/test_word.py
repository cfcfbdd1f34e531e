"""Word files: their accepted state in reading order, and what is counted instead of read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import docx
import pytest
from docx.enum.style import WD_STYLE_TYPE
from docx.shared import Cm
from PIL import Image

from okralong.pipelines.indexing.documents import BadRow, RawDocument, Source
from okralong.pipelines.indexing.formats.numbering import written
from okralong.pipelines.indexing.parsers import read_source
from tests.indexing import open_xml
from tests.indexing.open_xml import Part, drawing, paragraph, table, word_part, words

BOX = "<w:txbxContent>{}</w:txbxContent>"
CHART = drawing('<c:chart r:id="r1"/>')


def read(path: Path, data: bytes, name: str = "a.docx") -> RawDocument:
    (path / name).write_bytes(data)
    (found,) = read_source(Source(str(path / name), "a", len(data)), 10**8)
    assert isinstance(found, RawDocument), found
    return found


def text(path: Path, body: str, parts: Mapping[str, Part] | None = None) -> str:
    return read(path, open_xml.word(body, parts)).text


def not_read(path: Path, body: str, parts: Mapping[str, Part] | None = None) -> str:
    return read(path, open_xml.word(body, parts)).metadata.get("not_read", "")


def field(code: str, result: str | None, inner: str = "") -> str:
    """A complex field; without a result it has no separator."""
    shown = "" if result is None else f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{words(result)}'
    return (
        f'<w:r><w:fldChar w:fldCharType="begin">{inner}</w:fldChar></w:r>'
        f'<w:r><w:instrText xml:space="preserve">{code}</w:instrText></w:r>{shown}'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


@pytest.mark.documented(".docx", "paragraphs, tabs, line breaks, special characters")
def test_text_and_special_characters(tmp_path: Path) -> None:
    inner = "<w:t>Non</w:t><w:noBreakHyphen/><w:t>GAAP</w:t><w:tab/><w:t>4.2</w:t><w:br/><w:t>mil</w:t><w:softHyphen/>"
    inner += '<w:t>lion</w:t><w:cr/><w:t>net</w:t><w:ptab w:alignment="right"/><w:t>1</w:t>'
    assert text(tmp_path, f"<w:p><w:r>{inner}</w:r></w:p>") == "Non-GAAP\t4.2\nmillion\nnet\t1"


@pytest.mark.documented(".docx", "tracked changes")
def test_insertions_are_in_and_deletions_out(tmp_path: Path) -> None:
    gone = '<w:del w:id="1"><w:r><w:delText>4.00</w:delText></w:r></w:del>'
    both = '<w:ins w:id="2"><w:del w:id="3"><w:r><w:delText>3.50</w:delText></w:r></w:del></w:ins>'
    body = f"<w:p>{words('The ratio is ')}{gone}{both}<w:ins w:id='4'>{words('3.25')}</w:ins>{words(' times.')}</w:p>"
    body += f"<w:p><w:moveFrom>{words('Moved.')}</w:moveFrom></w:p>{paragraph('Between.')}"
    body += f"<w:p><w:moveTo>{words('Moved.')}</w:moveTo></w:p>"
    changed = "<w:rPrChange><w:rPr><w:vanish/></w:rPr></w:rPrChange>"
    body += paragraph("Bold now.", "<w:pPrChange><w:pPr><w:outlineLvl w:val='0'/></w:pPr></w:pPrChange>", changed)
    found = read(tmp_path, open_xml.word(body))
    assert found.text == "The ratio is 3.25 times.\n\nBetween.\n\nMoved.\n\nBold now."
    assert found.sections == ()
    assert "not_read" not in found.metadata


def test_a_deleted_paragraph_mark_joins_and_deleted_rows_and_cells_go(tmp_path: Path) -> None:
    body = paragraph("The loan of EUR 5 ", "<w:rPr><w:del/></w:rPr>") + paragraph("million is repaid.")
    assert text(tmp_path, body) == "The loan of EUR 5 million is repaid."
    assert text(tmp_path, paragraph("Above", "<w:rPr><w:del/></w:rPr>") + table([paragraph("a")])) == "Above\n\n| a |"
    row = "<w:tr>{}<w:tc>{}<w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc><w:tc><w:p>{}</w:p></w:tc></w:tr>"
    rows = row.format("<w:trPr><w:del/></w:trPr>", "", "old", words("1"))
    rows += row.format("<w:trPr><w:ins/></w:trPr>", "", "new", words("2"))
    rows += row.format("", "<w:tcPr><w:cellDel/></w:tcPr>", "gone", words("3"))
    assert text(tmp_path, f"<w:tbl>{rows}</w:tbl>") == "| new | 2 |\n| 3 |  |"
    assert text(tmp_path, paragraph("Ends open", "<w:rPr><w:del/></w:rPr>")) == "Ends open"


@pytest.mark.documented(".docx", "content controls, smart tags, links")
def test_content_controls_at_every_level(tmp_path: Path) -> None:
    def control(inner: str) -> str:
        return f"<w:sdt><w:sdtPr><w:alias w:val='no'/></w:sdtPr><w:sdtContent>{inner}</w:sdtContent></w:sdt>"

    cell = f"<w:tc>{paragraph('B')}</w:tc>"
    rows = control(f"<w:tr><w:tc>{control(paragraph('A'))}</w:tc>{control(cell)}</w:tr>")
    inline = f"<w:smartTag><w:hyperlink r:id='r9'>{words('Stellen')}</w:hyperlink></w:smartTag>{control(words('bank'))}"
    body = control(paragraph("Block.")) + f"<w:p><w:customXml>{inline}</w:customXml></w:p><w:tbl>{rows}</w:tbl>"
    assert text(tmp_path, control(control(body))) == "Block.\n\nStellenbank\n\n| A | B |"


@pytest.mark.documented(".docx", "fields")
@pytest.mark.documented(".docx", "fields without a saved result")
def test_fields_show_their_results(tmp_path: Path) -> None:
    condition = field(f"IF {field('MERGEFIELD x', 'INNER')} = 1", "Yes")
    body = f"<w:p>{words('See ')}{field('REF a', '3.2')}{words('; ')}{condition}</w:p>"
    body += f'<w:p><w:fldSimple w:instr="DOCPROPERTY p">{words("EUR 5")}</w:fldSimple>{field("XE a", None)}</w:p>'
    assert text(tmp_path, body) == "See 3.2; Yes\n\nEUR 5"
    assert not_read(tmp_path, body) == ""
    empty = f"<w:p>{words('Sum ')}{field('=SUM(ABOVE)', None)}{field('DOCPROPERTY p', '')}{field('TOC', None)}</w:p>"
    assert not_read(tmp_path, empty).startswith("2 fields without a saved value (update the fields in Word")
    unclosed = f'<w:p>{words("Before ")}<w:r><w:fldChar w:fldCharType="begin"/></w:r></w:p>{paragraph("after.")}'
    assert text(tmp_path, unclosed) == "Before\n\nafter."


def test_fields_that_show_their_code(tmp_path: Path) -> None:
    symbol = field("SYMBOL 163 \\f &quot;Symbol&quot; \\s 11", None)
    assert text(tmp_path, f"<w:p>{symbol}{field('MACROBUTTON No Name here', None)}</w:p>") == "≤Name here"
    fraction = field("EQ \\f(1,2)", None)
    assert not_read(tmp_path, f"<w:p>{words('x')}{fraction}{field('AUTONUM', None)}</w:p>") == (
        "1 equation that is a field; 1 automatic number"
    )


@pytest.mark.documented(".docx", "check boxes and lists of forms")
def test_form_fields(tmp_path: Path) -> None:
    def old(inner: str, code: str) -> str:
        return field(code, None, f"<w:ffData>{inner}</w:ffData>")

    choices = '<w:ddList><w:result w:val="1"/><w:listEntry w:val="No"/><w:listEntry w:val="Maybe"/></w:ddList>'
    body = f"<w:p>{old('<w:checkBox><w:checked/></w:checkBox>', 'FORMCHECKBOX')}{words(' A ')}"
    body += f"{old('<w:checkBox/>', 'FORMCHECKBOX')}{words(' B ')}"
    body += f"{old(choices, 'FORMDROPDOWN')}</w:p>"
    assert text(tmp_path, body) == "☒ A ☐ B Maybe"


@pytest.mark.documented(".docx", "headings (styles and outline levels)")
def test_headings(tmp_path: Path) -> None:
    styles = """
    <w:style w:type="paragraph" w:styleId="H2"><w:name w:val="heading 2"/></w:style>
    <w:style w:type="paragraph" w:styleId="Clause"><w:name w:val="Our clause"/><w:basedOn w:val="Level"/></w:style>
    <w:style w:type="paragraph" w:styleId="Level"><w:name w:val="Level"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr>
    </w:style>
    <w:style w:type="paragraph" w:styleId="Toc"><w:name w:val="TOC Heading"/><w:basedOn w:val="H2"/>
    <w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>
    <w:style w:type="paragraph" w:styleId="Ring"><w:name w:val="Ring"/><w:basedOn w:val="Ring"/></w:style>
    """
    body = "".join(
        paragraph(f"In {key}", f"<w:pStyle w:val='{key}'/>") for key in ("H2", "Clause", "Toc", "Ring", "None")
    )
    body += paragraph("Own level", "<w:outlineLvl w:val='2'/>")
    found = read(tmp_path, open_xml.word(body, {"r1": word_part("styles", styles)}))
    assert [section.name for section in found.sections] == ["In H2", "In Clause", "Own level"]
    found = read(tmp_path, open_xml.word(paragraph("No styles", "<w:pStyle w:val='Heading1'/>")))
    assert [section.name for section in found.sections] == ["No styles"]


def level(at: int, form: str, label: str, more: str = "") -> str:
    return (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>{more}<w:lvlText w:val="{label}"/></w:lvl>'
    )


def numbered(at: int, number: int = 1) -> str:
    return f'<w:numPr><w:ilvl w:val="{at}"/><w:numId w:val="{number}"/></w:numPr>'


@pytest.mark.documented(".docx", "automatic numbers")
@pytest.mark.documented(".docx", "bullets")
def test_clauses_have_their_numbers(tmp_path: Path) -> None:
    levels = level(0, "decimal", "%1.", "<w:pStyle w:val='Heading1'/>") + level(1, "decimal", "%1.%2")
    levels += (
        level(2, "lowerLetter", "(%3)") + level(3, "lowerRoman", "(%4)") + level(4, "upperRoman", "%5", "<w:isLgl/>")
    )
    other = level(0, "bullet", "") + level(1, "ideographDigital", "%2")
    numbering = f'<w:abstractNum w:abstractNumId="7">{levels}</w:abstractNum>'
    numbering += f'<w:abstractNum w:abstractNumId="8">{other}</w:abstractNum>'
    numbering += (
        '<w:num w:numId="1"><w:abstractNumId w:val="7"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="8"/></w:num>'
    )
    numbering += '<w:num w:numId="3"><w:abstractNumId w:val="7"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="5"/>'
    numbering += "</w:lvlOverride></w:num>"
    styles = '<w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/><w:pPr><w:numPr>'
    styles += '<w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
    heading = "<w:pStyle w:val='Heading1'/>"
    gone = "<w:rPr><w:del/></w:rPr>"
    body = paragraph("Terms", heading) + paragraph("Margin", numbered(1)) + paragraph("Basis", numbered(1))
    body += "".join(paragraph(each, numbered(2)) for each in ("first", "second")) + paragraph("deep", numbered(3))
    body += (
        f"<w:p><w:pPr>{numbered(1)}{gone}</w:pPr></w:p>" + paragraph("Fees", numbered(1)) + paragraph("a", numbered(2))
    )
    body += paragraph("Covenants", heading) + paragraph("Leverage", numbered(1)) + paragraph("plain", numbered(0, 0))
    body += (
        paragraph("restarted", numbered(0, 3)) + paragraph("item", numbered(0, 2)) + paragraph("odd", numbered(1, 2))
    )
    parts = {"r1": word_part("numbering", numbering), "r2": word_part("styles", styles)}
    found = read(tmp_path, open_xml.word(body, parts))
    assert found.text.split("\n\n") == [
        "1. Terms", "1.1 Margin", "1.2 Basis", "(a) first", "(b) second", "(i) deep", "1.3 Fees", "(a) a",
        "2. Covenants", "2.1 Leverage", "plain", "5. restarted", "• item", "odd",
    ]  # fmt: skip
    assert [section.name for section in found.sections] == ["1. Terms", "2. Covenants"]
    assert found.metadata["not_read"] == "1 automatic number"


@pytest.mark.parametrize(
    ("kind", "number", "said"),
    [
        ("lowerRoman", 49, "xlix"),
        ("upperLetter", 28, "BB"),
        ("decimalZero", 7, "07"),
        ("ordinal", 112, "112th"),
        ("ordinalText", 21, "Twenty-first"),
        ("ordinalText", 90, "Ninetieth"),
        ("cardinalText", 12, "Twelve"),
        ("cardinalText", 100, "100"),
        ("chineseCounting", 2, None),
    ],
)
def test_formats_of_numbers(kind: str, number: int, said: str | None) -> None:
    assert written(number, kind) == said


def test_numbers_of_the_default_template(tmp_path: Path) -> None:
    made = docx.Document()
    for name in ("List Number", "List Number", "List Bullet"):
        made.add_paragraph("item", style=name)
    made.save(str(tmp_path / "a.docx"))
    assert read(tmp_path, (tmp_path / "a.docx").read_bytes()).text == "1. item\n\n2. item\n\n• item"


@pytest.mark.documented(".docx", "tables")
def test_figures_stand_below_their_merged_heads(tmp_path: Path) -> None:
    made = docx.Document()
    grid = made.add_table(rows=4, cols=5)
    grid.cell(0, 0).merge(grid.cell(0, 4)).text = "In EUR million"
    grid.cell(1, 1).merge(grid.cell(1, 2)).text = "2023"
    grid.cell(1, 3).merge(grid.cell(1, 4)).text = "2024"
    grid.cell(2, 0).merge(grid.cell(3, 0)).text = "Debt"
    for row, texts in ((2, ("net", "gross", "net", "gross")), (3, ("1.5", "2.5", "3.5", "4.5"))):
        for column, word in enumerate(texts, start=1):
            grid.cell(row, column).text = word
    made.save(str(tmp_path / "a.docx"))
    assert read(tmp_path, (tmp_path / "a.docx").read_bytes()).text.split("\n") == [
        "| In EUR million |  |  |  |  |",
        "|  | 2023 | 2023 | 2024 | 2024 |",
        "| Debt | net | gross | net | gross |",
        "| Debt | 1.5 | 2.5 | 3.5 | 4.5 |",
    ]


@pytest.mark.documented(".docx", "tables within tables")
def test_tables_within_tables(tmp_path: Path) -> None:
    small = table([paragraph("2024"), paragraph("4.00")], [paragraph("2025"), paragraph("3.50")])
    large = table(*([paragraph(f"Item {row}"), paragraph("1,234.50")] for row in range(20)))
    assert text(tmp_path, table([paragraph("Ratio"), small + "<w:p/>"], [paragraph("Fee"), paragraph("1")])) == (
        "| Ratio | 2024 / 4.00; 2025 / 3.50 |\n| Fee | 1 |"
    )
    found = text(tmp_path, table([paragraph("Head"), paragraph("B")], [paragraph("Costs"), large], [paragraph("End")]))
    assert found.startswith("| Head | B |\n\nCosts\n\n| Item 0 | 1,234.50 |\n| Item 1 |")
    assert found.endswith("| Item 19 | 1,234.50 |\n\n| End |")
    deep = paragraph("bottom")
    for _ in range(30):
        deep = table([deep])
    assert text(tmp_path, deep) == "| bottom |"
    assert text(tmp_path, table([paragraph("A frame") + paragraph("of two.")])) == "A frame\n\nof two."


@pytest.mark.documented(".docx", "hidden text")
def test_hidden_text_is_counted(tmp_path: Path) -> None:
    styles = '<w:style w:type="character" w:styleId="S"><w:name w:val="S"/><w:rPr><w:vanish/></w:rPr></w:style>'
    styled = "<w:rStyle w:val='S'/>"
    runs = words("Seen ") + words("secret", "<w:vanish/>") + words("draft", styled)
    runs += words("again", f"{styled}<w:vanish w:val='0'/>")
    body = f"<w:p>{runs}</w:p>{paragraph(' ', run='<w:vanish/>')}"
    found = read(tmp_path, open_xml.word(body, {"r1": word_part("styles", styles)}))
    assert found.text == "Seen again"
    assert found.metadata["not_read"] == "1 paragraph with hidden text"


@pytest.mark.documented(".docx", "raised text")
def test_raised_text_stands_apart_from_figures(tmp_path: Path) -> None:
    raised = '<w:vertAlign w:val="superscript"/>'
    parts = ["Sales of 1,204", "^1", " from 10", "^6", " units on the 1", "^st", " in 2022", "^1", "^,2", " of 2", "^1"]
    runs = (words(each[1:], raised) if each[0] == "^" else words(each) for each in [*parts, "/2 m", "^2"])
    body = f"<w:p>{''.join(runs)}</w:p><w:p>{words('1', raised)}{words('Restated')}</w:p>"
    assert text(tmp_path, body) == (
        "Sales of 1,204 (1) from 10^6 units on the 1st in 2022 (1,2) of 2 1/2 m^2\n\n(1) Restated"
    )


def test_a_style_raises_text(tmp_path: Path) -> None:
    style = '<w:style w:type="character" w:styleId="Up"><w:rPr><w:vertAlign w:val="superscript"/></w:rPr></w:style>'
    plain = '<w:rStyle w:val="Up"/><w:vertAlign w:val="baseline"/>'
    runs = words("1,204") + words("1", '<w:rStyle w:val="Up"/>') + words(" and 1") + words("2", plain)
    assert text(tmp_path, f"<w:p>{runs}</w:p>", {"s": word_part("styles", style)}) == "1,204 (1) and 12"


@pytest.mark.documented(".docx", "struck-out text")
def test_struck_out_text_is_marked(tmp_path: Path) -> None:
    body = f"<w:p>{words('is ')}{words('4.', '<w:strike/>')}{words('00', '<w:dstrike/>')}{words(' 3.25')}</w:p>"
    assert text(tmp_path, body + paragraph("all", run="<w:strike/>")) == "is ~~4.00~~ 3.25\n\n~~all~~"


@pytest.mark.documented(".docx", "footnotes and endnotes")
def test_notes_follow_their_paragraph(tmp_path: Path) -> None:
    def note(kind: str, key: int) -> str:
        return f'<w:r><w:{kind}Reference w:id="{key}"/></w:r>'

    notes = '<w:footnote w:type="separator" w:id="-1"><w:p><w:r><w:separator/></w:r></w:p></w:footnote>'
    notes += f'<w:footnote w:id="2"><w:p><w:r><w:footnoteRef/></w:r>{words(" Net of cash.")}</w:p></w:footnote>'
    notes += f'<w:footnote w:id="3">{paragraph("Audited.")}{paragraph("By us.")}</w:footnote>'
    notes += f'<w:footnote w:id="4">{paragraph("Never referred to.")}</w:footnote>'
    parts = {"r1": word_part("footnotes", notes)}
    parts["r2"] = word_part("endnotes", f'<w:endnote w:id="1">{paragraph("The end.")}</w:endnote>')
    gone = f"<w:del>{note('footnote', 4)}</w:del>"
    body = f"<w:p>{words('Debt')}{gone}{note('footnote', 2)}{words(' fell')}{note('endnote', 1)}{words('.')}</w:p>"
    body += table([f"<w:p>{words('Cash')}{note('footnote', 3)}</w:p>", paragraph("5")]) + paragraph("Last.")
    assert text(tmp_path, body, parts).split("\n\n") == [
        "Debt[footnote 1] fell[endnote 1].", "Footnote 1: Net of cash.", "Endnote 1: The end.",
        "| Cash[footnote 2] | 5 |", "Footnote 2: Audited.\nBy us.", "Last.",
    ]  # fmt: skip


@pytest.mark.documented(".docx", "comments")
def test_comments_follow_their_paragraph(tmp_path: Path) -> None:
    made = docx.Document()
    first = made.add_paragraph("The margin is 185 basis points.")
    made.add_paragraph("Next.")
    made.add_comment(first.runs, text="Check with the agent.", author="Ines Calder")
    made.save(str(tmp_path / "a.docx"))
    assert read(tmp_path, (tmp_path / "a.docx").read_bytes()).text == (
        "The margin is 185 basis points.\n\nComment (Ines Calder): Check with the agent.\n\nNext."
    )


@pytest.mark.documented(".docx", "headers and footers")
def test_headers_and_footers_are_read_once(tmp_path: Path) -> None:
    page = f"<w:p>{words('Page ')}{field('PAGE', '3')}{words(' of ')}{field('NUMPAGES', '9')}</w:p>"
    line = f"<w:p>{words('Oakmere plc')}<w:r><w:tab/></w:r>{field('PAGE', '3')}</w:p>"
    parts = {
        "r1": word_part("header", line + paragraph("12 March 2024")),
        "r2": word_part("header", line, name="header2"),
        "r3": word_part("footer", page + paragraph("Confidential")),
        "r4": word_part("header", paragraph("First page that is off"), name="header3"),
    }
    section = (
        '<w:sectPr><w:headerReference w:type="{}" r:id="{}"/><w:footerReference w:type="default" r:id="r3"/></w:sectPr>'
    )
    body = paragraph("One.", section.format("default", "r1")) + paragraph("Two.", section.format("first", "r4"))
    found = text(tmp_path, body + section.format("default", "r2"), parts)
    assert found.split("\n\n") == [
        "Header: Oakmere plc",
        "Header: 12 March 2024",
        "Footer: Confidential",
        "One.",
        "Two.",
    ]
    head = word_part("header", table([paragraph("Oakmere"), page]))
    body = paragraph("One.") + '<w:sectPr><w:headerReference w:type="default" r:id="r1"/></w:sectPr>'
    assert text(tmp_path, body, {"r1": head}) == "Header: | Oakmere |\n\nOne."


@pytest.mark.documented(".docx", "text boxes and WordArt")
def test_text_boxes_are_read_once(tmp_path: Path) -> None:
    box = BOX.format(paragraph("In the box."))
    both = (
        f'<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:drawing><wp:anchor><wps:wsp><wps:txbx>{box}</wps:txbx>'
    )
    both += "</wps:wsp></wp:anchor></w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox>"
    both += f"{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    assert (
        text(tmp_path, f"<w:p>{words('Before')}{both}{words(' and after.')}</w:p>")
        == "Before and after.\n\nIn the box."
    )
    old = f"<v:shape><v:textbox>{box}</v:textbox></v:shape><v:shape><v:textpath string='DRAFT'/></v:shape>"
    assert text(tmp_path, f"<w:p><w:r><w:pict>{old}</w:pict></w:r></w:p>") == "In the box.\n\nDRAFT"


@pytest.mark.documented(".docx", "equations")
@pytest.mark.documented(".docx", "equations as objects or fields")
def test_equations(tmp_path: Path) -> None:
    power = (
        "<m:oMath><m:sSup><m:e><m:r><m:t>10</m:t></m:r></m:e><m:sup><m:r><m:t>6</m:t></m:r></m:sup></m:sSup></m:oMath>"
    )
    gone = f"<w:del>{power}</w:del>"
    body = f"<w:p>{words('Costs of ')}{power}{words('EUR')}{gone}</w:p><w:p><m:oMathPara>{power}</m:oMathPara></w:p>"
    assert text(tmp_path, body) == "Costs of EUR"
    assert not_read(tmp_path, body) == "2 equations"
    old = '<w:p><w:r><w:t>x</w:t></w:r><w:r><w:object><o:OLEObject ProgID="Equation.3"/></w:object></w:r></w:p>'
    assert not_read(tmp_path, old) == "1 equation that is an object"


@pytest.mark.documented(".docx", "charts")
def test_charts(tmp_path: Path) -> None:
    plots = f"<c:barChart>{open_xml.series('Revenue', ['2022', '2023'], ['1200.5', '1300'], '#,##0.0')}</c:barChart>"
    plots += f"<c:lineChart>{open_xml.series('Margin', ['2022', '2023'], ['0.125', '0.13'], '0.0%')}</c:lineChart>"
    body = f"<w:p>{words('Figure 1')}{CHART}{CHART}</w:p>"
    assert text(tmp_path, body, {"r1": open_xml.chart(plots, "Results")}) == (
        "Figure 1\n\nResults\n\n|  | Revenue | Margin |\n| 2022 | 1,200.5 | 12.5% |\n| 2023 | 1,300.0 | 13.0% |"
    )
    label = "<c:dLbl><c:tx><c:rich><a:p><a:r><a:t>one-off</a:t></a:r></a:p></c:rich></c:tx></c:dLbl></c:ser>"
    shapes = Part("chartUserShapes", "word/drawings/d1.xml", open_xml.element("c:userShapes", open_xml.shape("Target")))
    drawn = replace(open_xml.chart(plots.replace("</c:ser>", label, 1)), parts={"u1": shapes})
    assert text(tmp_path, f"<w:p>{CHART}</w:p>", {"r1": drawn}).startswith("one-off\nTarget\n\n|  | Revenue | Margin |")
    assert not_read(tmp_path, body, {"r1": open_xml.chart("<c:barChart/>")}) == "1 chart without saved data"
    found = text(tmp_path, table([paragraph("Left"), f"<w:p>{CHART}</w:p>"]), {"r1": open_xml.chart(plots, "R" * 200)})
    assert found.startswith(f"Left\n\n{'R' * 200}\n\n|  | Revenue | Margin |\n| 2022 |")


@pytest.mark.documented(".docx", "SmartArt")
def test_smart_art(tmp_path: Path) -> None:
    body = f"<w:p>{words('Our plan')}" + drawing('<dgm:relIds r:dm="r1"/>') + "</w:p>"
    assert text(tmp_path, body) == "Our plan"
    assert not_read(tmp_path, body) == "1 SmartArt drawing"


@pytest.mark.documented(".docx", "characters of symbol fonts")
def test_symbols(tmp_path: Path) -> None:
    inner = '<w:sym w:font="Wingdings" w:char="F0FE"/><w:sym w:font="Symbol" w:char="F0B3"/><w:t>5</w:t>'
    typed = words(" m\uf0b4", "<w:rFonts w:ascii='Symbol'/>") + words("\uf0b1")
    assert text(tmp_path, f"<w:p><w:r>{inner}</w:r>{typed}</w:p>") == "☑≥5 μ\u00d7±"
    odd = '<w:p><w:r><w:sym w:font="Wingdings" w:char="F022"/></w:r></w:p>'
    assert text(tmp_path, odd) == "□"
    assert not_read(tmp_path, odd) == "1 character of a symbol font"


@pytest.mark.documented(".docx", "phonetic guides (ruby)")
def test_ruby(tmp_path: Path) -> None:
    inner = f"<w:rt>{words('かん')}</w:rt><w:rubyBase>{words('漢')}</w:rubyBase>"
    assert text(tmp_path, f"<w:p><w:r><w:ruby>{inner}</w:ruby></w:r>{words('字')}</w:p>") == "漢(かん)字"


@pytest.mark.documented(".docx", "pictures")
@pytest.mark.documented(".docx", "alternative texts")
def test_pictures_are_counted_once_each(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("Text.")
    for number, (size, width) in enumerate(((40, 4), (41, 4), (40, 4), (42, 0.5))):
        image = io.BytesIO()
        Image.new("RGB", (size, size)).save(image, "PNG")
        image.seek(0)
        shape = made.add_picture(image, width=Cm(width))
        shape._inline.docPr.set("descr", f"Revenue grew in year {number}")
    made.sections[0].header.paragraphs[0].add_run().add_picture(str(_png(tmp_path)), width=Cm(5))
    made.save(str(tmp_path / "a.docx"))
    found = read(tmp_path, (tmp_path / "a.docx").read_bytes())
    assert found.text == "Text."
    assert found.metadata["not_read"] == "2 pictures"


def _png(folder: Path) -> Path:
    Image.new("RGB", (50, 50)).save(folder / "logo.png")
    return folder / "logo.png"


@pytest.mark.documented(".docx", "embedded workbooks, documents and other objects")
@pytest.mark.documented(".docx", "form controls (ActiveX)")
def test_objects_are_counted(tmp_path: Path) -> None:
    def one(program: str) -> str:
        shown = '<v:shape><v:imagedata r:id="r1"/></v:shape>'
        return f'<w:r><w:object>{shown}<o:OLEObject ProgID="{program}"/></w:object></w:r>'

    inner = one("Excel.Sheet.12") + one("Package") + one("Word.Document.8")
    inner += "<w:r><w:object><w:control r:id='r4'/></w:object></w:r>"
    assert not_read(tmp_path, f"<w:p>{words('x')}{inner}</w:p>") == (
        "1 embedded workbook; 1 embedded object; 1 embedded document; 1 form control"
    )


@pytest.mark.documented(".docx", "imported files (HTML, text, Word)")
@pytest.mark.documented(".docx", "imported files of other kinds")
@pytest.mark.documented(".docx", "sub-documents")
def test_imported_files(tmp_path: Path) -> None:
    inner = open_xml.word(f"<w:p><w:ins>{words('From Word.')}</w:ins></w:p>")
    parts = {
        "r1": Part("aFChunk", "word/one.html", "<p>From <b>HTML</b>.</p>"),
        "r2": Part("aFChunk", "word/two.docx", inner),
        "r3": Part("aFChunk", "word/three.rtf", "{\\rtf1 x}"),
        "r4": Part("aFChunk", "word/four.txt", "From text."),
    }
    body = paragraph("First.") + "".join(f'<w:altChunk r:id="r{number}"/>' for number in (1, 2, 3, 4, 1))
    found = read(tmp_path, open_xml.word(f'{body}<w:subDoc r:id="r9"/>', parts))
    assert found.text == "First.\n\nFrom HTML.\n\nFrom Word.\n\nFrom text."
    assert found.metadata["not_read"] == (
        "1 imported document (open the file in Word and save it); 1 linked document (index the file itself)"
    )


@pytest.mark.documented(".docx", "hidden drawings")
def test_hidden_drawings_are_counted(tmp_path: Path) -> None:
    hidden = drawing(f"<wps:txbx>{BOX.format(paragraph('No.'))}</wps:txbx>").replace(
        "<wp:docPr ", '<wp:docPr hidden="1" '
    )
    found = read(tmp_path, open_xml.word(f"<w:p>{words('Seen.')}{hidden}</w:p>"))
    assert (found.text, found.metadata["not_read"]) == ("Seen.", "1 hidden drawing")


@pytest.mark.documented(".docx", "missing or damaged parts")
def test_a_damaged_part_hides_no_other(tmp_path: Path) -> None:
    reference = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    parts = {"r3": Part("footnotes", "word/footnotes.xml", "<w:footnotes"), "r2": Part("header", "word/h.xml", b"\x00")}
    body = f"<w:p>{words('Kept.')}{reference}{CHART}</w:p>"
    body += '<w:sectPr><w:headerReference w:type="default" r:id="r2"/></w:sectPr>'
    found = read(tmp_path, open_xml.word(body, parts))
    assert (found.text, found.metadata["not_read"]) == ("Kept.", "3 missing or damaged parts")


@pytest.mark.documented(".docx", "building blocks, macros, document variables")
def test_building_blocks_are_not_read(tmp_path: Path) -> None:
    inner = f"<w:docParts><w:docPart><w:docPartBody>{paragraph('Block.')}</w:docPartBody></w:docPart></w:docParts>"
    parts = {"r1": word_part("glossaryDocument", inner), "r2": Part("vbaProject", "word/vbaProject.bin", b"x")}
    parts["r3"] = word_part("settings", '<w:docVars><w:docVar w:name="a" w:val="Secret."/></w:docVars>')
    found = read(tmp_path, open_xml.word(paragraph("Text."), parts))
    assert (found.text, found.metadata) == ("Text.", {})


def test_a_drop_cap_is_part_of_its_word(tmp_path: Path) -> None:
    body = paragraph("T", '<w:framePr w:dropCap="drop" w:lines="3"/>') + paragraph("he loan is repaid.")
    assert text(tmp_path, body) == "The loan is repaid."


def test_a_strict_file_and_other_suffixes(tmp_path: Path) -> None:
    plain = open_xml.word(f"{paragraph('Strict.')}{table([paragraph('a'), paragraph('b')])}")
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(plain)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if not name.startswith("["):
                for kind in ("wordprocessingml", "officeDocument"):
                    data = data.replace(
                        f"http://schemas.openxmlformats.org/{kind}/2006/".encode(),
                        f"http://purl.oclc.org/ooxml/{kind}/".encode(),
                    )
            new.writestr(name, data)
    assert b"purl.oclc.org" in out.getvalue()
    for name in ("a.docx", "b.docm", "c.dotx", "d.DOTM"):
        assert read(tmp_path, out.getvalue(), name).text == "Strict.\n\n| a | b |"


def test_python_docx_and_we_read_the_same_words(tmp_path: Path) -> None:
    made = docx.Document()
    style = made.styles.add_style("Sub clause", WD_STYLE_TYPE.PARAGRAPH)
    style.base_style = made.styles["Heading 3"]
    made.add_heading("Loans", 1)
    made.add_paragraph("One.\tTwo.\nThree.", style="Sub clause")
    made.core_properties.title = "Terms"
    made.save(str(tmp_path / "a.docx"))
    found = read(tmp_path, (tmp_path / "a.docx").read_bytes())
    assert found.text == "\n\n".join(each.text for each in docx.Document(str(tmp_path / "a.docx")).paragraphs)
    assert found.title == "Terms"
    assert [section.name for section in found.sections] == ["Loans", "One. Two. Three."]


def test_a_word_file_that_is_none_says_so(tmp_path: Path) -> None:
    data = open_xml.deck(open_xml.shape("x"))
    (tmp_path / "a.docx").write_bytes(data)
    (bad,) = read_source(Source(str(tmp_path / "a.docx"), "a", len(data)), 10**8)
    assert isinstance(bad, BadRow)
    assert "not a complete Word document (its main part is presentation)" in bad.message


def test_damaged_links_to_parts_are_counted(tmp_path: Path) -> None:
    parts = {"r2": Part("header", "word/h.xml", b"\x00")}
    data = io.BytesIO(open_xml.word(paragraph("Kept."), parts))
    broken = io.BytesIO()
    with zipfile.ZipFile(data) as whole, zipfile.ZipFile(broken, "w") as file:
        for name in whole.namelist():
            file.writestr(name, b"<broken" if name == "word/_rels/document.xml.rels" else whole.read(name))
    found = read(tmp_path, broken.getvalue())
    assert (found.text, found.metadata["not_read"]) == ("Kept.", "1 missing or damaged part")


def test_a_part_with_a_broken_name_hides_no_other(tmp_path: Path) -> None:
    styles = word_part("styles", "")
    data = bytearray(open_xml.word(paragraph("Kept."), {"r2": styles}))
    at = data.index(styles.name.encode())
    data[at : at + 2], data[at - 24 : at - 22] = b"\xff\xfe", b"\x00\x08"
    found = read(tmp_path, bytes(data))
    assert (found.text, found.metadata["not_read"]) == ("Kept.", "1 missing or damaged part")
