"""Presentations: what is read of each slide, and what is counted instead."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import pptx
import pytest
from PIL import Image
from pptx.chart.data import BubbleChartData, CategoryChartData, XyChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Cm

from okralong.pipelines.indexing.documents import BadRow, RawDocument, Source
from okralong.pipelines.indexing.parsers import read_source
from tests.indexing import open_xml
from tests.indexing.open_xml import Part, element, frame, shape, tree


def read(path: Path, data: bytes, name: str = "a.pptx") -> RawDocument:
    (path / name).write_bytes(data)
    (found,) = read_source(Source(str(path / name), "a", len(data)), 10**8)
    assert isinstance(found, RawDocument), found
    return found


def saved(made: object) -> bytes:
    out = io.BytesIO()
    made.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


def text(path: Path, shapes: str, parts: Mapping[str, Part] | None = None) -> str:
    return read(path, open_xml.deck(shapes, parts=parts)).text


def not_read(path: Path, shapes: str, parts: Mapping[str, Part] | None = None) -> str:
    return read(path, open_xml.deck(shape("x") + shapes, parts=parts)).metadata.get("not_read", "")


@pytest.mark.documented(".pptx", "raised text")
def test_raised_text_stands_apart_from_figures(tmp_path: Path) -> None:
    raised = '<a:r><a:rPr baseline="30000"/><a:t>{}</a:t></a:r>'
    runs = f"<a:r><a:t>Sales 1,204</a:t></a:r>{raised.format(1)}<a:r><a:t> of 10</a:t></a:r>{raised.format(6)}"
    low = '<a:r><a:t>, CO</a:t></a:r><a:r><a:rPr baseline="-25000"/><a:t>2</a:t></a:r>'
    assert text(tmp_path, shape(f"<a:p>{runs}{low}</a:p>")) == "Sales 1,204 (1) of 10^6, CO2"


@pytest.mark.documented(".pptx", "text of shapes, also in groups")
@pytest.mark.documented(".pptx", "automatic numbers")
@pytest.mark.documented(".pptx", "struck-out text")
def test_text_in_reading_order(tmp_path: Path) -> None:
    runs = "<a:p><a:r><a:t>One</a:t></a:r><a:br/><a:r><a:t>line </a:t></a:r><a:fld type='x'><a:t>2</a:t></a:fld></a:p>"
    struck = '<a:p><a:r><a:t>is </a:t></a:r><a:r><a:rPr strike="sngStrike"/><a:t>4.00</a:t></a:r></a:p>'
    auto = '<a:p><a:pPr{}><a:buAutoNum type="{}"/></a:pPr><a:r><a:t>item</a:t></a:r></a:p>'
    listed = (
        auto.format("", "arabicPeriod") + auto.format(' lvl="1"', "alphaLcParenR") + auto.format("", "arabicPeriod")
    )
    grouped = f"<p:grpSp><p:grpSp>{shape('Deep')}</p:grpSp>{shape('Outer')}</p:grpSp>"
    assert text(tmp_path, shape(runs) + shape(struck) + shape(listed) + grouped) == (
        "One\nline 2\n\nis ~~4.00~~\n\n1. item\na) item\n2. item\n\nDeep\n\nOuter"
    )


@pytest.mark.documented(".pptx", "alternate content")
def test_alternate_content_is_read_once(tmp_path: Path) -> None:
    both = f'<mc:AlternateContent><mc:Choice Requires="{{}}">{shape("New")}</mc:Choice>'
    both += f"<mc:Fallback>{shape('Old')}</mc:Fallback></mc:AlternateContent>"
    assert text(tmp_path, both.format("a14")) == "New"
    assert text(tmp_path, both.format("future")) == "Old"
    assert text(
        tmp_path, f'<mc:AlternateContent><mc:Choice Requires="zz">{shape("Only")}</mc:Choice></mc:AlternateContent>'
    )


@pytest.mark.documented(".pptx", "equations")
def test_equations(tmp_path: Path) -> None:
    inner = (
        "<m:oMath><m:sSup><m:e><m:r><m:t>10</m:t></m:r></m:e><m:sup><m:r><m:t>6</m:t></m:r></m:sup></m:sSup></m:oMath>"
    )
    both = f'<mc:Choice Requires="a14"><a14:m>{inner}</a14:m></mc:Choice>'
    both += "<mc:Fallback><a:r><a:t>?</a:t></a:r></mc:Fallback>"
    body = shape(f"<a:p><a:r><a:t>Costs of </a:t></a:r><mc:AlternateContent>{both}</mc:AlternateContent></a:p>")
    assert text(tmp_path, body) == "Costs of"
    assert not_read(tmp_path, body) == "1 equation"


@pytest.mark.documented(".pptx", "tables")
def test_tables_with_merged_cells(tmp_path: Path) -> None:
    def cell(words: str, attributes: str = "") -> str:
        return f"<a:tc {attributes}><a:txBody><a:p><a:r><a:t>{words}</a:t></a:r></a:p></a:txBody></a:tc>"

    rows = [
        cell("", "") + cell("2023", 'gridSpan="2"') + cell("", 'hMerge="1"'),
        cell("North", 'rowSpan="2"') + cell("1") + cell("2"),
        cell("", 'vMerge="1"') + cell("3") + cell("4"),
    ]
    inner = "".join(f"<a:tr>{row}</a:tr>" for row in rows)
    assert (
        text(tmp_path, frame(f"<a:tbl>{inner}</a:tbl>")) == "|  | 2023 | 2023 |\n| North | 1 | 2 |\n| North | 3 | 4 |"
    )


def chart_deck(kind: XL_CHART_TYPE, data: object) -> bytes:
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[6])
    chart = slide.shapes.add_chart(kind, Cm(1), Cm(1), Cm(9), Cm(9), data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Sales"
    return saved(made)


@pytest.mark.documented(".pptx", "charts")
def test_charts_of_many_kinds(tmp_path: Path) -> None:
    data = CategoryChartData(number_format="0.0%")
    for year in ("2023", "2024"):
        above = data.add_category(year)
        above.add_sub_category("H1")
        above.add_sub_category("H2")
    data.add_series("Share", (0.1, 0.125, None, 0.2))
    for kind in (XL_CHART_TYPE.COLUMN_STACKED, XL_CHART_TYPE.LINE, XL_CHART_TYPE.RADAR, XL_CHART_TYPE.AREA):
        assert read(tmp_path, chart_deck(kind, data)).text == (
            "Sales\n\n|  | Share |\n| 2023 / H1 | 10.0% |\n| 2023 / H2 | 12.5% |\n| 2024 / H2 | 20.0% |"
        )
    points = XyChartData()
    points.add_series("P").add_data_point(1.5, 20)
    assert read(tmp_path, chart_deck(XL_CHART_TYPE.XY_SCATTER, points)).text == "Sales\n\n|  | P |\n| 1.5 | 20 |"
    bubbles = BubbleChartData()
    bubbles.add_series("B").add_data_point(1, 2, 3)
    assert (
        read(tmp_path, chart_deck(XL_CHART_TYPE.BUBBLE, bubbles)).text == "Sales\n\n|  | B | B (size) |\n| 1 | 2 | 3 |"
    )


@pytest.mark.documented(".pptx", "charts without saved data")
def test_charts_with_axes_dates_and_newer_kinds(tmp_path: Path) -> None:
    plots = "<c:surface3DChart>" + open_xml.series("Debt", ["a"], ["5"]) + "</c:surface3DChart><c:valAx><c:title><c:tx>"
    plots += "<c:rich><a:p><a:r><a:t>EUR million</a:t></a:r></a:p></c:rich></c:tx></c:title></c:valAx>"
    shown = frame('<c:chart r:id="r1"/>')
    assert text(tmp_path, shown, {"r1": open_xml.chart(plots)}) == "EUR million\n\n|  | Debt |\n| a | 5 |"
    dated = "<c:lineChart><c:ser><c:cat><c:numRef><c:numCache><c:formatCode>mmm\\-yy</c:formatCode>"
    dated += "<c:pt idx='0'><c:v>45292</c:v></c:pt></c:numCache></c:numRef></c:cat><c:val><c:numRef><c:numCache>"
    dated += (
        "<c:formatCode>#,##0</c:formatCode><c:pt idx='0'><c:v>1204.4</c:v></c:pt><c:pt idx='1'><c:v>#N/A</c:v></c:pt>"
    )
    dated += "</c:numCache></c:numRef></c:val></c:ser></c:lineChart>"
    assert text(tmp_path, shown, {"r1": open_xml.chart(dated)}) == "| 2024-01-01 | 1,204 |\n|  | #N/A |"
    mac = element("c:chartSpace", f'<c:date1904 val="1"/><c:chart><c:plotArea>{dated}</c:plotArea></c:chart>')
    assert text(tmp_path, shown, {"r1": Part("chart", "ppt/c.xml", mac)}).startswith("| 2028-01-02 |")
    newer = "<cx:chartData><cx:data id='0'><cx:strDim type='cat'><cx:lvl ptCount='2'><cx:pt idx='0'>Start</cx:pt>"
    newer += "<cx:pt idx='1'>Costs</cx:pt></cx:lvl></cx:strDim><cx:numDim type='val'><cx:lvl formatCode='#,##0'>"
    newer += "<cx:pt idx='0'>1500</cx:pt><cx:pt idx='1'>-300</cx:pt></cx:lvl></cx:numDim></cx:data></cx:chartData>"
    newer += "<cx:chart><cx:title><cx:tx><cx:txData><cx:v>Bridge</cx:v></cx:txData></cx:tx></cx:title><cx:plotArea>"
    newer += (
        "<cx:plotAreaRegion><cx:series layoutId='waterfall'><cx:tx><cx:txData><cx:v>EBITDA</cx:v></cx:txData></cx:tx>"
    )
    newer += "<cx:dataId val='0'/></cx:series></cx:plotAreaRegion></cx:plotArea></cx:chart>"
    part = Part("chartEx", "ppt/charts/chartEx1.xml", element("cx:chartSpace", newer))
    chart = frame('<cx:chart r:id="r1"/>')
    choice = f'<mc:AlternateContent><mc:Choice Requires="cx1">{chart}</mc:Choice>'
    choice += f"<mc:Fallback>{shape('Not supported.')}</mc:Fallback></mc:AlternateContent>"
    assert text(tmp_path, choice, {"r1": part}) == "Bridge\n\n|  | EBITDA |\n| Start | 1,500 |\n| Costs | -300 |"
    assert not_read(tmp_path, shown, {"r1": open_xml.chart("<c:pieChart/>")}) == "1 chart without saved data"
    assert not_read(tmp_path, shown, {"r1": open_xml.chart("<c:pieChart><c:ser/></c:pieChart>")}).startswith(
        "1 chart series"
    )


@pytest.mark.documented(".pptx", "SmartArt")
def test_smart_art(tmp_path: Path) -> None:
    body = shape("<a:p><a:r><a:t>Our plan</a:t></a:r></a:p>") + frame('<dgm:relIds r:dm="r1"/>')
    assert text(tmp_path, body) == "Our plan"
    assert not_read(tmp_path, body) == "1 SmartArt drawing"


@pytest.mark.documented(".pptx", "notes")
def test_notes(tmp_path: Path) -> None:
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[5])
    slide.shapes.title.text = "Costs"
    slide.notes_slide.notes_text_frame.text = "Say why.\nSlowly."
    assert read(tmp_path, saved(made)).text == "Costs\n\nNotes: Say why.\nSlowly."


@pytest.mark.documented(".pptx", "comments")
def test_comments_of_both_kinds(tmp_path: Path) -> None:
    old = '<p:cm authorId="0" idx="1"><p:text>Too high?</p:text></p:cm>'
    body = "<p188:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></p188:txBody>"
    new = f'<p188:cm authorId="{{A}}"><p188:replyLst><p188:reply authorId="{{B}}">{body.format("No.")}</p188:reply>'
    new += f"</p188:replyLst>{body.format('Right?')}</p188:cm>"
    parts = {
        "r1": Part("comments", "ppt/comments/one.xml", element("p:cmLst", old)),
        "r2": Part("comments", "ppt/comments/two.xml", element("p188:cmLst", new)),
    }
    main = {
        "a1": Part("commentAuthors", "ppt/ca.xml", element("p:cmAuthorLst", '<p:cmAuthor id="0" name="Ines"/>')),
        "a2": Part("authors", "ppt/a.xml", element("p188:authorLst", '<p188:author id="{A}" name="Bo Li"/>')),
    }
    assert read(tmp_path, open_xml.deck(shape("Costs"), parts=parts, main=main)).text.split("\n\n") == [
        "Costs", "Comment (Ines): Too high?", "Comment (Bo Li): Right?", "Comment: No.",
    ]  # fmt: skip


@pytest.mark.documented(".pptx", "text of layouts and masters; footers and dates")
@pytest.mark.documented(".pptx", "prompts of empty placeholders, slide numbers")
def test_what_all_slides_show_is_read_once(tmp_path: Path) -> None:
    logo = "<p:pic><p:nvPicPr><p:cNvPr id='1' name='n'/><p:nvPr/></p:nvPicPr></p:pic>"
    master = Part(
        "slideMaster", "ppt/master.xml", element("p:sldMaster", tree(shape("Oakmere plc") + shape("Click", "title")))
    )
    layout = element("p:sldLayout", tree(shape("Draft") + shape("Click here", "body") + logo))
    parts = {"r1": Part("slideLayout", "ppt/layout.xml", layout, {"r1": master})}
    number = shape("<a:p><a:fld type='slidenum'><a:t>1</a:t></a:fld></a:p>", "sldNum")
    slides = [shape(name, "title") + shape("March 2024", "dt") + shape("Internal", "ftr") + number for name in "AB"]
    found = read(tmp_path, open_xml.deck(*slides, parts=parts))
    assert found.text.split("\n\n") == ["A", "March 2024", "Internal", "Draft", "Oakmere plc", "B"]
    assert "not_read" not in found.metadata


@pytest.mark.documented(".pptx", "hidden slides")
@pytest.mark.documented(".pptx", "hidden shapes")
def test_hidden_slides_and_shapes_are_counted(tmp_path: Path) -> None:
    made = pptx.Presentation()
    for name in ("Seen", "Secret"):
        made.slides.add_slide(made.slide_layouts[5]).shapes.title.text = name
    made.slides[1]._element.set("show", "0")
    found = read(tmp_path, saved(made))
    assert found.text == "Seen"
    assert {name: found.metadata[name] for name in ("slides", "hidden_slides", "not_read")} == {
        "slides": "2", "hidden_slides": "1", "not_read": "1 hidden slide",
    }  # fmt: skip
    assert not_read(tmp_path, shape("Off", hidden=True)) == "1 hidden shape"


@pytest.mark.documented(".pptx", "pictures")
@pytest.mark.documented(".pptx", "alternative texts")
def test_pictures_are_counted_once_each(tmp_path: Path) -> None:
    made = pptx.Presentation()
    for size in (40, 41, 40):
        slide = made.slides.add_slide(made.slide_layouts[5])
        slide.shapes.title.text = "Growth"
        image = io.BytesIO()
        Image.new("RGB", (size, size)).save(image, "PNG")
        for width in (5, 0.5):
            image.seek(0)
            slide.shapes.add_picture(image, Cm(1), Cm(1), Cm(width))._element.nvPicPr.cNvPr.set("descr", "a chart")
    found = read(tmp_path, saved(made))
    assert found.text == "Growth\n\nGrowth\n\nGrowth"
    assert found.metadata["not_read"] == "2 pictures"
    behind = "</p:spTree><p:bg><p:bgPr><a:blipFill><a:blip r:embed='r1'/></a:blipFill></p:bgPr></p:bg><p:spTree>"
    assert not_read(tmp_path, behind, {"r1": Part("image", "ppt/a.png", b"x")}) == "1 picture"


@pytest.mark.documented(".pptx", "videos, sounds, ink")
@pytest.mark.documented(".pptx", "embedded workbooks, documents and other objects")
def test_media_and_objects_are_counted(tmp_path: Path) -> None:
    media = "<p:pic><p:nvPicPr><p:cNvPr id='1' name='n'/><p:nvPr>{}</p:nvPr></p:nvPicPr></p:pic>"
    fallback = media.format("")
    ole = '<mc:AlternateContent><mc:Choice Requires="v"><p:oleObj progId="Excel.Sheet.12"/></mc:Choice><mc:Fallback>'
    ole += f'<p:oleObj progId="Excel.Sheet.12">{fallback}</p:oleObj></mc:Fallback></mc:AlternateContent>'
    shapes = media.format('<a:videoFile r:link="r1"/>') + media.format('<a:audioFile r:link="r1"/>') + frame(ole)
    assert not_read(tmp_path, f"{shapes}<p:contentPart/>") == (
        "1 video; 1 sound; 1 embedded workbook; 1 drawing in ink"
    )


@pytest.mark.documented(".pptx", "missing or damaged parts")
def test_a_damaged_part_hides_no_other(tmp_path: Path) -> None:
    parts = {"r1": Part("notesSlide", "ppt/n.xml", "<p:notes"), "r2": Part("slideLayout", "ppt/l.xml", b"\x00")}
    found = read(tmp_path, open_xml.deck(shape("Kept") + frame('<c:chart r:id="r9"/>'), parts=parts))
    assert (found.text, found.metadata["not_read"]) == ("Kept", "3 missing or damaged parts")


def test_a_deck_of_pictures_alone_says_so(tmp_path: Path) -> None:
    picture = "<p:pic><p:nvPicPr><p:cNvPr id='1' name='n'/><p:nvPr/></p:nvPicPr></p:pic>"
    data = open_xml.deck(picture + picture)
    (tmp_path / "a.pptx").write_bytes(data)
    (bad,) = read_source(Source(str(tmp_path / "a.pptx"), "a", len(data)), 10**8)
    assert isinstance(bad, BadRow)
    assert "a.pptx holds no text (not read: 2 pictures)." in bad.message


def test_other_suffixes(tmp_path: Path) -> None:
    for name in ("a.pptm", "b.ppsx", "c.potx", "d.PPSM", "e.potm"):
        assert read(tmp_path, open_xml.deck(shape("x")), name).text == "x"
