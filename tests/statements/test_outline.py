"""The tree of sections of a document, from its headings and its table of contents."""

from __future__ import annotations

import time

from okralong.pipelines.core.outline import path_at
from okralong.pipelines.core.types import Document, Section
from okralong.pipelines.statements.outline import outline_of, read_outline

PROSE = "The company reports that its mills ran at full load in the year and that it hired further staff.\n"
PAGES = (
    "FORM 10-K\nIndicate by check mark whether the registrant is a shell company.\n",
    "Table of Contents\nPART I\nItem 1. Business 1\nItem 1A. Risk Factors 2\nItem 3. Legal Proceedings 3\nPART II\n"
    "Item 5. Market for Common Equity 3\nItem 8. Financial Statements 4\nItem 15. Exhibits 6\nSIGNATURES 7\n",
    f"PART I\nItem 1. Business.\nHuman Capital\n{PROSE * 3}Dividend Policy\n{PROSE * 2}",
    f"Item 1A. Risk Factors\n{PROSE * 4}",
    f"Item 3. Legal Proceedings\n{PROSE}PART II\nItem 5. Market for Common Equity\nDividends\n{PROSE * 2}",
    "Item 8. Financial Statements\nCONSOLIDATED BALANCE SHEETS\nTotal assets 1,234 1,100\nInventories 34 31\n",
    f"NOTES TO CONSOLIDATED FINANCIAL STATEMENTS\nNote 1. Organization\n{PROSE * 2}Note 2. Leases\n{PROSE}",
    "Item 15. Exhibits\n31.1 Certification of the chief executive\n",
    "SIGNATURES\nPursuant to the requirements of Section 13 the registrant has signed this report.\n",
    "Exhibit 31.1\nI, Ada Quill, certify that:\n1. I have reviewed this report.\n",
)


def pages_of(pages: tuple[str, ...]) -> tuple[str, tuple[Section, ...]]:
    starts = [sum(map(len, pages[:at])) for at in range(len(pages))]
    return "".join(pages), tuple(Section("page", str(at + 1), start) for at, start in enumerate(starts))


TEXT, SECTIONS = pages_of(PAGES)


def titles(text: str, sections: tuple[Section, ...], char: int) -> list[str]:
    return [node.title.rstrip(".") for node in path_at(read_outline(text, sections), char)]


def test_headings_nest_in_items_and_parts() -> None:
    inside = TEXT.index("mills", TEXT.index("Dividend Policy"))
    assert titles(TEXT, SECTIONS, inside) == ["PART I", "Item 1. Business", "Dividend Policy"]
    leases = TEXT.index("mills", TEXT.index("Leases"))
    assert titles(TEXT, SECTIONS, leases)[-2:] == ["NOTES TO CONSOLIDATED FINANCIAL STATEMENTS", "Note 2. Leases"]


def test_the_rows_of_a_table_of_contents_and_of_statements_are_no_headings() -> None:
    found = read_outline(TEXT, SECTIONS)
    assert [node.page for node in found if node.title.startswith("Item 1A")] == ["4"]
    assert not [node for node in found if "assets" in node.title or "Inventories" in node.title]


def test_sections_have_roles() -> None:
    roles = {str(page): set() for page in range(1, len(PAGES) + 1)}
    for node in read_outline(TEXT, SECTIONS):
        roles[node.page].add(node.role)
    assert roles["1"] == {"front"}
    assert roles["2"] == {"contents"}
    assert roles["4"] == {"body"}
    assert "statement" in roles["6"]
    assert "notes" in roles["7"]
    assert (roles["8"], roles["9"]) == ({"exhibits"}, {"signatures"})
    assert "certification" in roles["10"]


def test_a_table_of_contents_finds_chapters_by_their_printed_pages() -> None:
    contents = (
        "Contents\n1 Letter from the chair\n2 Strategic report\n4 Remuneration report\n5 Balance sheet\n6 Contacts\n"
    )
    letter = "Dear shareholders, the year was one of change for all of us at the mills of the group.\n"
    text, sections = pages_of(
        (
            "Annual report\n",
            contents,
            f"Letter from the chair\n{letter}",
            f"Strategic report\n{letter}",
            letter,
            f"Our pay in short\n{letter}",  # the heading is not that of the table of contents
            "Balance sheet\nAssets 12 11\n",
            f"Contacts\n{letter}",
        )
    )
    found = {node.title: node.page for node in read_outline(text, sections)}
    assert found["Strategic report"] == "4"
    assert found["Remuneration report"] == "6"
    assert found["Contacts"] == "8"


def test_a_text_without_pages_has_sections() -> None:
    found = read_outline(TEXT)
    assert {node.page for node in found} == {""}
    assert "Item 1A. Risk Factors" in [node.title for node in found]
    assert read_outline("") == ()


def test_running_heads_are_no_headings() -> None:
    text, sections = pages_of(tuple(f"QUILL MILLS PLC\nTOPIC {chr(65 + at)}\n{PROSE}" for at in range(8)))
    assert [node.title for node in read_outline(text, sections)] == [f"TOPIC {chr(65 + at)}" for at in range(8)]


def test_a_stored_outline_is_returned_as_it_is() -> None:
    stored = read_outline(TEXT, SECTIONS)[:2]
    assert outline_of(Document("a", "Other text", outline=stored)) == stored
    assert outline_of(Document("a", TEXT, sections=SECTIONS)) == read_outline(TEXT, SECTIONS)


def test_the_time_is_linear_in_the_text() -> None:
    def seconds(count: int) -> float:
        text, sections = pages_of(tuple(f"Topic {at}\n{'.' * 180} {'a ' * 90}{at}\n" for at in range(count)))
        began = time.process_time()
        read_outline(text, sections)
        return time.process_time() - began

    assert seconds(1600) < 30 * max(seconds(200), 0.005)
