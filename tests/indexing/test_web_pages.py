"""Web pages: what a viewer shows is the text, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.types import Fact
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, Source
from okralong.pipelines.indexing.formats.html import page_of_html
from okralong.pipelines.indexing.job import LocalStreams, run_index
from okralong.pipelines.indexing.parsers import read_source
from tests.archives.nights import encoder
from tests.indexing.growth import LINEAR, growth

FIXTURES = Path(__file__).parent / "edgar"


def document(path: Path, markup: str | bytes = "") -> RawDocument:
    if markup:
        path.write_bytes(markup.encode() if isinstance(markup, str) else markup)
    (found,) = read_source(Source(str(path), path.stem, path.stat().st_size), 10**9)
    assert isinstance(found, RawDocument), found
    return found


def shown(markup: str) -> str:
    return page_of_html(markup, "a.html").text


@pytest.mark.documented(".html", "text, also in `<pre>` and closed `<details>`")
@pytest.mark.documented(".html", "headings (`<h1>` to `<h6>`)")
@pytest.mark.documented(".html", "lists")
def test_blocks_lists_and_headings(tmp_path: Path) -> None:
    found = document(
        tmp_path / "a.html",
        "<h1>Limits</h1><p>a<br>b</p><ul><li>x<ul><li>y</li></ul></li></ul><ol start=3><li>c<li value=7>d</ol>"
        "<ol type=a><li>e</ol><dl><dt>Term<dd>Meaning</dl><pre>  Sales    1,204\n  Costs      (5)</pre>"
        "<details><summary>More</summary>closed</details><q>quoted</q>",
    )
    assert found.text == (
        "Limits\n\na\nb\n\n- x\n- y\n\n3. c\n7. d\n\na. e\n\nTerm\nMeaning\n\n"
        "  Sales    1,204\n  Costs      (5)\n\nMore\nclosed\n\u201cquoted\u201d"
    )
    assert [section.name for section in found.sections] == ["Limits"]


HIDDEN = [
    "<p hidden>no</p>",
    "<p style='DISPLAY : none !important'>no</p>",
    "<p style='visibility:hidden'>no</p>",
    "<p style='font-size:0'>no</p>",
    "<p style='font-size:1px;color:#fff'>no</p>",
    "<p style='opacity:0'>no</p>",
    "<p style='max-height:0;overflow:hidden'>no</p>",
    "<p style='position:absolute;left:-9999px'>no</p>",
    "<p style='position:absolute;clip:rect(0, 0, 0, 0)'>no</p>",
    "<p style='text-indent:-9999px'>no</p>",
    "<style>.x{display:none}</style><p class='y x'>no</p>",
    "<style>/* a */ #x , b {display:none}</style><p id=x>no</p>",
    "<style>p.x{visibility:hidden}</style><p class=x>no</p>",
    "<style>@media screen { .x{display:none} }</style><p class=x>no</p>",
    "<style>.x{display:block} .x{display:none}</style><p class=x>no</p>",
    "<p style='color:#fff'>no</p>",
    "<table bgcolor=white><tr><td style='background:#FFFFFF'><font color=white>no</font></table>",
    "<style>.w{color:rgb(255, 255, 255)}</style><p class=w>no</p>",
    "<p style='color:transparent'>no</p>",
    "<template>no</template><noscript>no</noscript><script>no</script><dialog>no</dialog>",
    "<table><tr style='display:none'><td>no</td></tr></table>",
    "<input type=hidden value=no><datalist><option>no</datalist>",
    "<svg><title>no</title><desc>no</desc></svg>",
]


@pytest.mark.documented(
    ".html", "hidden text: `hidden`, `display: none`, `visibility: hidden`, no size, off the page, white on white"
)
@pytest.mark.documented(".html", "scripts, `<template>`, `<noscript>`")
@pytest.mark.parametrize("markup", HIDDEN)
def test_hidden_text_is_not_text(markup: str) -> None:
    page = page_of_html(f"<p>before</p>{markup}<p>after</p>", "a.html")
    assert page.text == "before\n\nafter"
    assert page.losses.words() == ""


SHOWN = [
    "<style>@media print{p{display:none}}</style><p>yes</p>",
    "<style>@media (max-width:600px){.m{display:none}}</style><p class=m>yes</p>",
    "<style>.d{display:none}@media (min-width:600px){.d{display:block}}</style><p class=d>yes</p>",
    "<style>.tab{display:none}.tab.open{display:block}</style><p class='tab open'>yes</p>",
    "<style>.x{display:none}</style><p class=x style='display:block'>yes</p>",
    "<div style='visibility:hidden'><p style='visibility:visible'>yes</p></div>",
    "<div style='font-size:0'><p style='font-size:12px'>yes</p></div>",
    "<p aria-hidden=true>yes</p>",
    "<p style='display:none;display:block'>yes</p>",
    "<dialog open>yes</dialog>",
    "<div style='background-color:#003366'><p style='color:#fff'>yes</p></div>",
    "<table><tr bgcolor=#003366><td><font color=white>yes</font></table>",
    "<style>.h{background:url(a.png)}</style><div class=h><p style='color:white'>yes</p></div>",
    "<style>.a .b{background:#000}</style><p style='color:white'>yes</p>",
    "<link rel=stylesheet href=a.css><p style='color:white'>yes</p>",
    "<div style='position:absolute'><p style='color:white'>yes</p></div>",
    "<div style='color:white'><p style='color:black'>yes</p></div>",
    "<style>.x:hover{display:none} .a .x{display:none}</style><p class=x>yes</p>",
]


@pytest.mark.parametrize("markup", SHOWN)
def test_shown_text_is_kept(markup: str) -> None:
    assert shown(markup) == "yes"


APART = {
    "<span style='display:inline-block'>2023</span><span style='display:inline-block'>2022</span>": "2023 2022",
    "<div style='display:flex'><b>2023</b><b>2022</b></div>": "2023 2022",
    "R<span>evenue</span> Rev<span style='display:inline-block'></span>enue": "Revenue Revenue",
    "<b>1</b><span style='margin-left:20px'>2</span>": "1 2",
    "ad\u00adjust<wbr>ed \u200c \u200c": "adjusted",
    "<p style='white-space:pre'>Reve<i style='display:inline-block;width:0.5px'></i>nue<i style='display:inline-block;"
    "width:9px'> </i>2023<i style='display:inline-block;width:9px'></i>2022</p>": "Revenue 2023 2022",
    "<table><tr><td>Sales<br>Tax<td>100<br>(20)<tr><td>a<td>b</table>": "| Sales | 100 |\n| Tax | (20) |\n| a | b |",
    "<table><tr><td>Umsatz<td>1.204<td>\u20ac<td>900<td>\u20ac<tr><td>a<td>b</table>": (
        "| Umsatz | 1.204 \u20ac | 900 \u20ac |\n| a | b |  |"
    ),
    "<div>1<div>2</div></div>3": "1\n2\n\n3",
    "<table><tr><td><p>x</p><p>y</p><td>3<tr><td>a<td>b</table>": "| x y | 3 |\n| a | b |",
    "<div style='display:table'><div style='display:table-row'><i style='display:table-cell'>1</i>"
    "<i style='display:table-cell'>2</i></div></div>": "| 1 | 2 |",
}


@pytest.mark.parametrize("markup", APART)
def test_neighbours_do_not_merge_and_words_do_not_split(markup: str) -> None:
    assert shown(markup) == APART[markup]


MARKS = {
    "1,234<sup>1</sup>": "1,234 (1)",
    "Revenue<sup>2</sup>was": "Revenue (2) was",
    "x<sup>(1)</sup>y": "x (1) y",
    "<sup>1</sup>Restated": "(1) Restated",
    "7<span style='vertical-align:super;font-size:6pt'>a</span>": "7 (a)",
    "5<span style='position:relative;top:-3pt'>(b)</span>": "5 (b)",
    "10<sup>6</sup> m<sup>2</sup> $10<sup>1</sup>": "10^6 m^2 $10 (1)",
    "12<sup>1</sup>/<sub>2</sub> 1<sup>st</sup> H<sub>2</sub>O Brand<sup>\u2122</sup>": "12 1/2 1st H2O Brand\u2122",
    "<del>old</del><ins>new</ins>": "~~old~~ new",
}


@pytest.mark.documented(".html", "raised marks of footnotes, and powers")
@pytest.mark.documented(".html", "struck-through text")
@pytest.mark.parametrize("markup", MARKS)
def test_marks_do_not_run_into_numbers(markup: str) -> None:
    assert shown(f"<p>{markup}</p>") == MARKS[markup]


@pytest.mark.documented(".html", "formulas (MathML)")
@pytest.mark.documented(".html", "phonetic guides (ruby)")
@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", "1/2"),
        ("<math><mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac></math>", "(a+b)/c"),
        ("<math><semantics><msup><mn>10</mn><mn>6</mn></msup><annotation>10^6</annotation></semantics></math>", "10^6"),
        ("<math><msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup></math>", "x_i^2"),
        ("a<sup>(1)</sup><math><msup><mi>x</mi><mn>2</mn></msup></math>", "a (1) x^2"),
        ("<ruby>\u6f22<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "\u6f22(kan)"),
    ],
)
def test_formulas_and_guides_do_not_run_together(markup: str, text: str) -> None:
    assert page_of_html(f"<p>{markup}</p>", "a").text == text


@pytest.mark.documented(".html", "tables")
@pytest.mark.documented(".html", "tables that only arrange the page")
def test_tables_keep_their_columns() -> None:
    assert shown(
        "<table><caption>Sales</caption><thead><tr><th rowspan=2>Item<th colspan=6>Year ended<tr><th colspan=3>2023"
        "<th colspan=3>2022</thead><tfoot><tr><td>Total<td colspan=2>3<td><td colspan=2>4<td></tfoot><tr><td>Sales"
        "<sup>1</sup><td>$<td>1,204<td></td><td>$<td>900<td><tr><td>Loss<td><td>(12<td>)<td><td>(3<td>)<tr><td>Margin"
        "<td colspan=2>12.5<td>%<td colspan=2>11.0<td>%<tr><td>None<td colspan=2>7<td><sup>(2)</sup><td><td>\u2014<td>"
        "</table>"
    ) == (
        "Sales\n\n| Item | Year ended |  |\n| Item | 2023 | 2022 |\n| Sales (1) | $ 1,204 | $ 900 |\n"
        "| Loss | (12) | (3) |\n| Margin | 12.5% | 11.0% |\n| None | 7 (2) | \u2014 |\n| Total | 3 | 4 |"
    )
    layout = "<table><tr><td>one</td></tr><tr><td><table><tr><td>a<td>b<tr><td>1<td>2</table></td></tr></table>"
    assert shown(layout) == "one\n\n| a | b |\n| 1 | 2 |"
    assert shown("<table><tr><td>\u2022<td>One of the items of a list</table>") == "\u2022 One of the items of a list"
    cells = "<tr><td>Sales<td><table><tr><td>$<td>14</table><td><table><tr><td>$<td>15</table>"
    assert shown(f"<table><tr><td><td>2023<td>2022{cells}</table>") == "|  | 2023 | 2022 |\n| Sales | $ 14 | $ 15 |"


@pytest.mark.documented(".html", "values of form fields, chosen options")
@pytest.mark.documented(".html", "alternative text of pictures")
@pytest.mark.documented(".html", "pictures, except small ones and logos")
@pytest.mark.documented(".html", "embedded pages, objects, videos, audio, script drawings")
@pytest.mark.documented(".html", "text in drawings (SVG)")
def test_forms_pictures_and_embedded_things(tmp_path: Path) -> None:
    found = document(
        tmp_path / "a.html",
        "<form>Name <input value=Ann><input type=password value=x><input type=checkbox checked>Yes <input type=radio>No"
        "<select><option>a<option selected>b</select></form><img src=a.png alt='Sales by year'><img src=b.png>"
        "<img src=logo.png><img src=p.gif width=1 height=1><img src=c.png alt=''><iframe src=x></iframe>"
        "<iframe srcdoc='<p>inner</p>'></iframe><video src=x></video><canvas>x</canvas><object data=x>y</object>"
        "<audio src=x></audio><svg><text>Label</text><text>2</text></svg>",
    )
    assert found.text == "Name Ann [x] Yes [ ] No b\n[Sales by year]\n\ninner\n\nLabel 2"
    assert found.metadata["not_read"] == (
        "2 pictures; 1 embedded page; 1 video; 1 drawing made by a script; 1 embedded object; 1 audio recording"
    )
    framed = document(
        tmp_path / "b.html", "<frameset><frame src=a.html><noframes><p>See <b>a</b></p></noframes></frameset>"
    )
    assert (framed.text, framed.metadata) == ("See a", {"not_read": "1 embedded page"})


@pytest.mark.documented(".html", "pages in another encoding that is not declared")
def test_a_page_in_an_unknown_encoding_is_counted(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes("<html><p>Выручка составила 5 млн рублей</p></html>".encode("cp1251"))
    (found,) = read_source(Source(str(tmp_path / "a.html"), "a"), 10**6)
    assert isinstance(found, RawDocument)
    assert found.metadata == {"not_read": "1 text in an unknown encoding (save it as UTF-8)"}


@pytest.mark.documented(".html", "encodings: byte order mark, UTF-8, declared, cp1252")
def test_encodings(tmp_path: Path) -> None:
    text = "<p>5 \u20ac \u041f\u0440\u0438</p>"
    for data in (
        text.encode("utf-8-sig"),
        text.encode("utf-16"),
        f"<?xml version='1.0' encoding='iso-8859-1'?>{text}".encode(),
        f"<meta charset=windows-1251>{text}".encode("cp1251"),
        b"<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>" + text.encode("cp1251"),
    ):
        assert document(tmp_path / "a.htm", data).text == "5 \u20ac \u041f\u0440\u0438"
    assert document(tmp_path / "a.htm", "<p>5 \u20ac</p>".encode("cp1252")).text == "5 \u20ac"
    assert (
        document(tmp_path / "a.htm", "<meta charset=shift_jis><p>\u58f2\u4e0a</p>".encode("cp932")).text
        == "\u58f2\u4e0a"
    )


def test_xhtml_elements_that_close_themselves_swallow_nothing(tmp_path: Path) -> None:
    page = (
        '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="a.js"/></head>'
        '<body><p>a<span style="display:none"/>b<![CDATA[ <c> & d]]></p><a name="x"/>tail</body></html>'
    )
    assert document(tmp_path / "a.xhtml", page).text == "ab <c> & d\n\ntail"


# Inline XBRL.

TAGGED = """<?xml version='1.0' encoding='ASCII'?>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:ix="http://www.xbrl.org/2013/inlineXBRL"><body>
<div style="display:none"><ix:header><ix:hidden><ix:nonNumeric contextRef="c1" name="dei:CIK"
id="f9">12345</ix:nonNumeric>
<ix:nonFraction name="us-gaap:Revenues" contextRef="c1" unitRef="usd">7,777</ix:nonFraction></ix:hidden><ix:resources>
<xbrli:context id="c1"><xbrli:entity><xbrli:identifier scheme="s">0000012345</xbrli:identifier></xbrli:entity>
<xbrli:period><xbrli:startDate>2023-01-01</xbrli:startDate><xbrli:endDate>2023-12-31</xbrli:endDate></xbrli:period>
</xbrli:context><xbrli:context id="c2"><xbrli:entity><xbrli:identifier scheme="s">0000012345</xbrli:identifier>
<xbrli:segment><xbrldi:explicitMember dimension="us-gaap:SegmentAxis">abc:Valves</xbrldi:explicitMember></xbrli:segment>
</xbrli:entity><xbrli:period><xbrli:instant>2023-12-31</xbrli:instant></xbrli:period></xbrli:context>
<xbrli:unit id="usd"><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unit><xbrli:unit id="ups"><xbrli:divide>
<xbrli:unitNumerator><xbrli:measure>iso4217:USD</xbrli:measure></xbrli:unitNumerator><xbrli:unitDenominator>
<xbrli:measure>xbrli:shares</xbrli:measure></xbrli:unitDenominator></xbrli:divide></xbrli:unit></ix:resources>
</ix:header></div><p style="-sec-ix-hidden:f9">CIK 12345</p>
<table><tr><td>Net loss</td><td>$</td><td>(<ix:nonFraction unitRef="usd" contextRef="c1" decimals="-6"
name="us-gaap:Loss" format="ixt:num-dot-decimal" scale="6" sign="-">1,204</ix:nonFraction></td><td>)</td><td>$</td><td>
<ix:nonFraction unitRef="usd" contextRef="c2" name="us-gaap:Tax" scale="3"
format="ixt:fixed-zero">&#8212;</ix:nonFraction></td></tr>
<tr><td>EPS</td><td></td><td><ix:nonFraction unitRef="ups" contextRef="c1" name="us-gaap:EPS"><ix:nonFraction
unitRef="ups" contextRef="c1" name="us-gaap:Diluted">1,20</ix:nonFraction></ix:nonFraction></td><td/></tr></table>
<ix:nonNumeric name="us-gaap:Policy" contextRef="c1" continuedAt="k1"><p>Note begins</p></ix:nonNumeric>
<p>Not part <ix:exclude>Page 3</ix:exclude></p><ix:continuation id="k1"><div>and ends.</div></ix:continuation>
</body></html>"""


@pytest.mark.documented(".html", "facts tagged in inline XBRL, shown ones")
@pytest.mark.documented(".html", "facts in `ix:hidden`, not linked to shown text")
def test_facts_are_kept_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.htm").write_text(TAGGED, encoding="utf-8")
    config = IndexConfig(granularities=[150])
    run_index(
        str(tmp_path / "archive"), [str(tmp_path / "files")], config, lambda at, how: LocalStreams(at, how, encoder())
    )
    archive = Archive.open(tmp_path / "archive")
    text = archive.document("a").text
    assert text == (
        "CIK 12345\n\n| Net loss | $ (1,204) | $ \u2014 |\n| EPS | 1,20 |  |\n\nNote begins\n\nNot part\nPage 3\n\n"
        "and ends."
    )
    facts = archive.tagged_facts("a")
    assert [
        (fact.concept, text[fact.start_char : fact.end_char], fact.value, fact.unit, fact.part) for fact in facts
    ] == [
        ("dei:CIK", "CIK 12345", "", "", 0),
        ("us-gaap:Loss", "1,204", "-1204000000", "USD", 0),
        ("us-gaap:Tax", "\u2014", "0", "USD", 0),
        ("us-gaap:EPS", "1,20", "120", "USD/shares", 0),
        ("us-gaap:Diluted", "1,20", "120", "USD/shares", 0),
        ("us-gaap:Policy", "Note begins", "", "", 0),
        ("us-gaap:Policy", "and ends.", "", "", 1),
    ]
    assert facts[1] == Fact(
        "us-gaap:Loss", facts[1].start_char, facts[1].end_char, "-1204000000", "USD", 6, "-", "-6", "c1", "0000012345",
        "2023-01-01", "2023-12-31",
    )  # fmt: skip
    assert (facts[2].period_start, facts[2].period_end) == ("", "2023-12-31")
    assert facts[2].dimensions == (("us-gaap:SegmentAxis", "abc:Valves"),)
    assert archive.document("a").facts == ()


def test_hidden_facts_are_not_read_from_a_filing() -> None:
    found = document(FIXTURES / "tressle-10k.htm")
    assert "OLD NAME" not in found.text
    assert "7,777" not in found.text
    assert "8888" not in found.text
    assert (
        "|  | 2023 | 2022 |\n| Net sales | $ 14,260 | $ 13,011 |\n| Operating income (loss) | 512 | (1,204) |"
        in found.text
    )


@pytest.mark.parametrize(
    ("said", "format_", "scale", "value"),
    [
        ("1.234,5", "ixt:num-comma-decimal", "3", "1234500"),
        ("1 234.5", "ixt4:numdotdecimal", "-2", "12.345"),
        ("no", "ixt-sec:numwordsen", "0", "0"),
        ("twelve", "ixt-sec:numwordsen", "0", "12"),
        ("n/a", "", "0", ""),
        ("9" * 60, "", "0", ""),
    ],
)
def test_values_of_facts(said: str, format_: str, scale: str, value: str) -> None:
    tag = f'<ix:nonFraction name="a:b" format="{format_}" scale="{scale}">{said}</ix:nonFraction>'
    (fact,) = page_of_html(f"<p>{tag}</p>", "a.htm").facts
    assert (fact.value, fact.end_char - fact.start_char) == (value, len(said))


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("", "<sup>a"),
        ("", "<del>a"),
        ("<style>", "@media print{"),
        ("<style>", "/*"),
        ("<table><tr>", "<td rowspan=9>x<tr><td>y"),
        ("<table>", "<tr><td colspan=1000>x<td>y"),
        ("<table><tr><td>1", "<td>%"),
        ("<table><tr><td>1", "<td><sup>1</sup>"),
        ("<?xml version='1.0'?>", "<a '<b \""),
        ("<?xml version='1.0'?>", "<![CDATA["),
        ("<p>", "<ix:nonFraction name=a:b>1"),
        (
            "<p>",
            "<ix:nonNumeric continuedAt=k>a</ix:nonNumeric><ix:continuation id=k continuedAt=k>b</ix:continuation>",
        ),
        ("<table><tr><td>", "<p><ix:nonFraction name=a:b>1</ix:nonFraction>"),
    ],
)
def test_pages_of_one_thing_many_times(head: str, unit: str) -> None:
    assert growth(lambda size: page_of_html(head + unit * size, "a.html"), 1_000) < LINEAR


@pytest.mark.parametrize(
    "page",
    [
        "<html style='background:black'><body style='color:white'>Shown.</body></html>",
        "<html><style>html{background:#111} body{color:#fff}</style><body>Shown.</body></html>",
        "<html><style>body{opacity:0}</style><body>Shown.</body></html>",
        "<html><style>body{display:none}</style><body>Shown.</body></html>",
        "<html><body style='visibility:hidden'>Shown.</body></html>",
    ],
)
def test_dark_pages_and_pages_that_a_script_shows_are_read(page: str) -> None:
    assert shown(page) == "Shown."
