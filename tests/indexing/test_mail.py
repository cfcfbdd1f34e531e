"""Mails: what becomes of each kind of content, as ``docs/documents.md`` says."""

from __future__ import annotations

import base64
import binascii
import itertools
import struct
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from okralong.pipelines.core.encodings import decoded
from okralong.pipelines.core.types import section_at
from okralong.pipelines.indexing.documents import BadRow, ParserOutput, RawDocument, Source
from okralong.pipelines.indexing.formats import mail
from okralong.pipelines.indexing.formats.mail import read_mail
from okralong.pipelines.indexing.parsers import read_source
from tests.indexing import office_files
from tests.indexing.growth import LINEAR, growth
from tests.indexing.sheet_files import rows, workbook
from tests.indexing.tiny_pdf import tiny_pdf

HEAD = "From: Ines <ines@example.org>\nSubject: Limits\nMIME-Version: 1.0\n"
EDGES = itertools.count()


def readings(file: Path, data: bytes | str) -> list[ParserOutput]:
    data = data if isinstance(data, bytes) else data.encode()
    file.write_bytes(data)
    return list(read_source(Source(str(file), "a", len(data)), 10**9))


def read(file: Path, data: bytes | str) -> RawDocument:
    (found,) = readings(file, data)
    assert isinstance(found, RawDocument), found
    return found


def body(found: RawDocument) -> str:
    """The text below the headers."""
    return found.text.partition("\n\n")[2]


def lost(found: RawDocument) -> str:
    return found.metadata.get("not_read", "")


def parts(kind: str, *inner: str, head: str = HEAD) -> str:
    """A multipart of parts, each headers and content; a part that ends with a boundary may be nested."""
    edge = f"edge-{next(EDGES)}"
    joined = "".join(f"--{edge}\n{part}\n" for part in inner)
    return f'{head}Content-Type: multipart/{kind}; boundary="{edge}"\n\n{joined}--{edge}--\n'


def attached(name: str, data: bytes, kind: str = "application/octet-stream", more: str = "") -> str:
    said = f'Content-Disposition: attachment; filename="{name}"\n' if name else "Content-Disposition: attachment\n"
    coded = base64.encodebytes(data).decode()
    return f"Content-Type: {kind}\n{said}{more}Content-Transfer-Encoding: base64\n\n{coded}"


def plain(text: str) -> str:
    return f"Content-Type: text/plain; charset=utf-8\n\n{text}\n"


def html(text: str, more: str = "") -> str:
    return f"Content-Type: text/html; charset=utf-8{more}\n\n{text}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.eml"


@pytest.mark.documented(".eml", "From, To, Cc, Date, Subject")
@pytest.mark.documented(".eml", "other headers")
def test_headers(file: Path) -> None:
    data = (
        b"From: =?iso-8859-1?Q?Gr=FC=DFe_=80?= <a@b.c>\nDate: Tue, 5 Mar 2024 09:12:00 +0100\nX-Mailer: Pegasus\n"
        b"Subject: Kreditlimit \x80 f\xfcr\n =?klingon?Q?=C3=BC?= =?utf-8?B?w?="
        b" =?utf-8?Q?a=C3?=\n =?utf-8?Q?=BCb?=\n\nx"
    )
    found = read(file, data)
    assert found.text == (
        "From: Grüße € <a@b.c>\nDate: Tue, 5 Mar 2024 09:12:00 +0100\nSubject: Kreditlimit € für üwaüb\n\nx"
    )
    assert found.metadata["from"] == "Grüße € <a@b.c>"
    assert (found.metadata["date"], found.title) == ("2024-03-05", "Kreditlimit € für üwaüb")


@pytest.mark.documented(".eml", "texts in a wrong, unknown or missing encoding")
@pytest.mark.parametrize(
    ("declared", "data", "text", "doubtful"),
    [
        ("iso-8859-1", b"\x80 2.5 million \x96 f\xfcr", "€ 2.5 million \N{EN DASH} für", False),
        ("us-ascii", b"\x80 2.5", "€ 2.5", False),
        ("us-ascii", "€ 2.5".encode(), "€ 2.5", False),
        ("iso-8859-1", "€ für".encode(), "€ für", False),
        ("", "€ für".encode(), "€ für", False),
        ("", b"\x80 f\xfcr", "€ für", False),
        ("klingon", b"Gr\xfc\xdfe", "Grüße", False),
        ("utf-8", b"Gr\xfc\xdfe \x80", "Grüße €", False),
        ("utf-8", "für alle Läufer ".encode() + b"\x80", "für alle Läufer €", False),
        ("iso-8859-15", b"\xa4 5", "€ 5", False),
        ("iso-8859-2", b"\x9cr\xf3da", "śróda", False),
        ("windows-1251", "лимит".encode("cp1251"), "лимит", False),
        ("iso-2022-jp", "限度額".encode("iso-2022-jp"), "限度額", False),
        ("gb2312", "額度".encode("gb18030"), "額度", False),
        ("utf-16", "Limit €".encode("utf-16"), "Limit €", False),
        ("", "лимит по кредиту".encode("cp1251"), "ëèìèò ïî êðåäèòó", True),
        ("utf-8", b"\x81\x8d abc", "\N{REPLACEMENT CHARACTER}" * 2 + " abc", True),
        ("hex", b"Gr\xfc\xdfe", "Grüße", False),
    ],
)
def test_encodings(file: Path, declared: str, data: bytes, text: str, doubtful: bool) -> None:
    assert decoded(data, declared) == (text, doubtful)
    kind = f"text/plain; charset={declared}" if declared else "text/plain"
    head = f"{HEAD}Content-Type: {kind}\nContent-Transfer-Encoding: base64\n\n".encode()
    found = read(file, head + base64.encodebytes(data))
    assert body(found) == text
    assert lost(found) == ("1 text in an unknown encoding" if doubtful else "")


def test_a_page_declares_its_encoding_itself(file: Path) -> None:
    page = '<html><head><meta charset="windows-1251"></head><p>лимит</p></html>'.encode("cp1251")
    found = read(file, f"{HEAD}Content-Type: text/html\nContent-Transfer-Encoding: 8bit\n\n".encode() + page)
    assert body(found) == "лимит"


@pytest.mark.documented(".eml", "body in plain text, HTML or both")
@pytest.mark.documented(".eml", "hidden text of a page")
def test_bodies(file: Path) -> None:
    page = html('<div style="display:none">preview 99</div><p>The limit is 2.5 million.</p>')
    assert body(read(file, HEAD + page)) == "The limit is 2.5 million."
    for said in ("", "View this mail in HTML.", "The limit is shown in the other form of this mail."):
        assert body(read(file, parts("alternative", plain(said), page))) == "The limit is 2.5 million."
    same = "The limit is 2.5 million; see http://a.b/?id=77"
    assert body(read(file, parts("alternative", plain(same), page))) == same
    assert body(read(file, parts("alternative", plain(same), html("")))) == same
    quoted = f"{same}\n\n-----Original Message-----\nFrom: Bo\n> It was 2.4 million."
    assert body(read(file, HEAD + plain(quoted))) == quoted


@pytest.mark.documented(".eml", "attachments of the formats on this page")
@pytest.mark.documented(".eml", "texts between attachments, attachments without a name")
def test_attachments(file: Path) -> None:
    sheet = workbook(rows("Limit|5"), rows("x"), states={1: "hidden"})
    mixed = parts(
        "mixed",
        plain("First."),
        attached("", tiny_pdf(["The mast is of larch."]), "application/pdf"),
        plain("Second 7."),
        attached("", sheet),
        attached("Limits v1.2", b"a,b\n1,2", "text/csv"),
        head="",
    )
    found = read(file, parts("alternative", plain("First. Second 7."), mixed))
    assert "Attachments: attachment 1, attachment 2, Limits v1.2" in found.text
    assert body(found).split("\n\n") == [
        "First.", "Second 7.", "The mast is of larch.", "One", "| Limit | 5 |", "| a | b |\n| 1 | 2 |",
    ]  # fmt: skip
    assert lost(found) == "attachment 2: 1 hidden sheet"
    assert str(section_at(found.sections, found.text.index("5 |"))) == "attachment attachment 2, sheet One"
    assert found.metadata["attachments"] == "3"


@pytest.mark.documented(".eml", "other attachments (zip, old Office formats)")
def test_attachments_of_other_kinds_are_named_and_counted(file: Path) -> None:
    several = [attached(f"{name}.zip", b"PK") for name in "abcdef"]
    found, bad = None, None
    for reading in readings(file, parts("mixed", plain("Text."), *several, attached("old.docx", b"no zip"))):
        found, bad = (reading, bad) if isinstance(reading, RawDocument) else (found, reading)
    assert isinstance(found, RawDocument)
    assert isinstance(bad, BadRow)
    assert "a.eml, attachment old.docx is not a .docx file" in bad.message
    assert lost(found) == "7 attachments (a.zip, b.zip, c.zip, d.zip, e.zip, …)"
    assert found.metadata["attachments_not_read"] == "7"
    linked = "Content-Type: message/external-body; name=draft.txt\n\nContent-Type: text/plain\n\n"
    found = read(file, parts("mixed", plain("Text."), linked, attached("empty.txt", b" ")))
    assert lost(found) == "2 attachments (draft.txt, empty.txt)"


def test_an_attachment_whose_parser_fails_leaves_the_mail(file: Path) -> None:
    def fail(_: Source) -> Iterator[ParserOutput]:
        raise ZeroDivisionError("zero")
        yield

    file.write_text(parts("mixed", plain("Text 5."), attached("a.txt", b"x")))
    bad, found = read_mail(Source(str(file), "a"), lambda _: fail)
    assert isinstance(bad, BadRow)
    assert "a.eml, attachment a.txt made its parser fail (ZeroDivisionError: zero)." in bad.message
    assert isinstance(found, RawDocument)
    assert (body(found), lost(found)) == ("Text 5.", "1 attachment (a.txt)")


@pytest.mark.documented(".eml", "attached mails")
def test_attached_mails(file: Path) -> None:
    inner = parts("mixed", plain("The old limit was 3."), attached("b.zip", b"PK"))
    found = read(file, parts("mixed", plain("See below."), f"Content-Type: message/rfc822\n\n{inner}"))
    assert "Attachments: Limits\n\nSee below." in found.text
    assert str(section_at(found.sections, found.text.index("old limit"))) == "attachment Limits"
    assert lost(found) == "1 attachment (Limits, b.zip)"
    coded = base64.encodebytes(inner.encode()).decode()
    encoded = f"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n{coded}"
    for held in (attached("old.eml", inner.encode()), encoded):
        assert "The old limit was 3." in read(file, parts("mixed", plain("See below."), held)).text


TNEF = "application/ms-tnef"


@pytest.mark.documented(".eml", "`winmail.dat` of Outlook")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("winmail.dat", "application/ms-tnef"),
        ("WIN.DAT", "application/octet-stream"),
        ("memo.txt", "application/ms-tnef"),
    ],
)
def test_containers_of_outlook_are_named(file: Path, name: str, kind: str) -> None:
    held = attached(name, struct.pack("<IH", 0x223E9F78, 1) + b"The code is ZX-440.", kind)
    found = read(file, parts("mixed", plain("Text 5."), held))
    assert f"Attachments: {name}\n\nText 5." in found.text
    assert (body(found), lost(found)) == ("Text 5.", f"1 attachment ({name})")
    assert (found.metadata["attachments"], found.metadata["attachments_not_read"]) == ("1", "1")
    alone = read(file, HEAD + held)
    assert (body(alone), lost(alone)) == ("", f"1 attachment ({name})")


@pytest.mark.documented(".eml", "invitations (iCalendar)")
def test_invitations(file: Path) -> None:
    event = (
        "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nDTSTART:19700101T000000\nEND:VTIMEZONE\nBEGIN:VEVENT\nUID:1\n"
        'SUMMARY:Credit committee\\, Kestrel\nDTSTART;TZID="Europe/Vienna":20240305T091200\nDTEND:20240305T101200Z\n'
        "DUE;VALUE=DATE:20240306\nORGANIZER;CN=Ines Calder:MAILTO:ines@example.org\nLOCATION:Room 4\n"
        "DESCRIPTION:The limit is 2.5 mil\n lion.\\nBring notes.\nEND:VEVENT\nEND:VCALENDAR\n"
    )
    lines = [
        "Event: Credit committee, Kestrel", "Begins: 2024-03-05 09:12 Europe/Vienna", "Ends: 2024-03-05 10:12 UTC",
        "Due: 2024-03-06", "Organizer: Ines Calder <ines@example.org>", "Place: Room 4",
        "Description: The limit is 2.5 million.", "Bring notes.",
    ]  # fmt: skip
    invited = parts(
        "alternative", plain("Please come."), html("<p>Please come.</p>"), f"Content-Type: text/calendar\n\n{event}"
    )
    found = read(file, invited)
    assert body(found) == "Please come.\n\n" + "\n".join(lines)
    found = read(file, parts("mixed", plain("Hi."), attached("a.ics", event.encode())))
    assert found.text.endswith("\n".join(lines))
    assert lost(found) == ""


@pytest.mark.documented(".eml", "delivery reports")
def test_delivery_reports(file: Path) -> None:
    fields = "Reporting-MTA: dns; a.b\n\nFinal-Recipient: rfc822; bo@x.y\nAction: failed\n"
    status = f"Content-Type: message/delivery-status\n\n{fields}"
    found = read(file, parts("report", plain("Not delivered."), status))
    assert body(found).endswith("Final-Recipient: rfc822; bo@x.y\nAction: failed")


@pytest.mark.documented(".eml", "files in uuencode within the text")
def test_uuencode(file: Path) -> None:
    coded = binascii.b2a_uu(b"The code is ZX-440.").decode()
    found = read(file, f"{HEAD}\nbegin at the beginning\nbegin 644 memo.txt\n{coded}`\nend\nBye 3.")
    assert body(found) == "begin at the beginning\n\nBye 3.\n\nThe code is ZX-440."
    assert str(section_at(found.sections, found.text.index("ZX"))) == "attachment memo.txt"
    assert "begin 644 memo.txt\nno code" in read(file, f"{HEAD}\nbegin 644 memo.txt\nno code at all\nend").text


@pytest.mark.documented(".eml", "encrypted parts (S/MIME, PGP)")
@pytest.mark.documented(".eml", "signatures and keys (S/MIME, PGP)")
def test_encrypted_parts_are_counted(file: Path) -> None:
    signed = parts("signed", plain("The limit is 5."), attached("smime.p7s", b"x", "application/pkcs7-signature"))
    found = read(file, signed)
    assert (body(found), lost(found), "Attachments" in found.text) == ("The limit is 5.", "", False)
    found = read(
        file, parts("encrypted", attached("", b"Version: 1", "application/pgp-encrypted"), attached("x.asc", b"x"))
    )
    assert lost(found) == "1 encrypted part"
    found = read(file, f"{HEAD}Content-Type: application/pkcs7-mime; name=smime.p7m\n\nMIAG")
    assert lost(found) == "1 attachment (smime.p7m)"
    block = "-----BEGIN PGP {0}-----\nabc\n-----END PGP {0}-----\n"
    signature, secret = (block.format(kind) for kind in ("SIGNATURE", "MESSAGE"))
    said = f"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nHello 5.\n{signature}{secret}Bye."
    found = read(file, HEAD + plain(said))
    assert (body(found), lost(found)) == ("Hello 5.\n\n\nBye.", "1 encrypted part")


@pytest.mark.documented(".eml", "pictures in the body")
def test_pictures_in_the_body(file: Path) -> None:
    shown = "Content-ID: <p>\n"
    logo, scan = (attached("i.png", b"\x89PNG" * n, "image/png", shown) for n in (9, 9_000))
    found = read(file, parts("related", plain("Text 5."), logo, scan))
    assert (body(found), lost(found)) == ("Text 5.", "1 picture")
    page = html('<p>Text 5.</p><img src="cid:p" alt="Chart of limits">')
    assert lost(read(file, parts("related", page, scan))) == "1 picture"


def test_marks_and_blank_lines_before_the_headers(file: Path) -> None:
    assert body(read(file, f"\ufeff\r\n\n{HEAD}\nThe limit is 5.")) == "The limit is 5."


def test_enriched_text(file: Path) -> None:
    said = "<color><param>red</param><bold>Limit</bold></color> <<5>"
    assert body(read(file, f"{HEAD}Content-Type: text/enriched\n\n{said}")) == "Limit <5>"


def test_a_mail_whose_boundary_is_missing_is_read_as_text(file: Path) -> None:
    found = read(file, f"{HEAD}Content-Type: multipart/mixed; boundary=x\n\nThe limit is 5.")
    assert body(found) == "The limit is 5."


def test_file_names_in_every_encoding(file: Path) -> None:
    names = {
        "filename*=iso-8859-1''Gr%FC%80.txt": "Grü€.txt",
        'filename="=?utf-8?B?R3LDvA==?=.txt"': "Grü.txt",
        'filename="Gr\xfc.txt"': "Grü.txt",
        "filename*0=long; filename*1=er.txt": "longer.txt",
        'filename="C:\\\\docs\\\\a.txt"': "a.txt",
    }
    for declared, name in names.items():
        part = f"Content-Type: text/plain\nContent-Disposition: attachment; {declared}\n\ninside"
        found = read(file, parts("mixed", plain("x"), part).encode("latin-1"))
        assert f"Attachments: {name}" in found.text
        assert found.text.endswith("inside")


def test_mails_take_linear_time(file: Path) -> None:
    def many(unit: str, around: str = "{}") -> float:
        return growth(lambda size: read(file, HEAD + around.format(unit * size)), 2_000)

    assert many("begin 644 x\n!!!!\n", "\n{}end\n") < LINEAR
    assert many("=?utf-8?Q?a?= ", "X: y\nTo: {}\n\nx") < LINEAR
    assert many("-----BEGIN PGP MESSAGE-----\n", "\n{}") < LINEAR
    assert many("--e\n\na 1\n", "Content-Type: multipart/mixed; boundary=e\n\n{}") < LINEAR
    assert many("--e\n\na 1\n", "Content-Type: multipart/alternative; boundary=e\n\n{}") < LINEAR
    assert many("A;B=C", "Content-Type: text/calendar\n\nBEGIN:VEVENT\n{}\n") < LINEAR
    assert growth(lambda size: decoded(b"\xff\xe4" * size), 20_000) < LINEAR


def test_a_message_made_by_the_standard_library(file: Path) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "Ines Calder <a@b.c>", "Kosten der Fähre"
    message.set_content("Siehe Anhang, 1.204 €.")
    message.add_attachment(office_files.workbook(), maintype="application", subtype="x", filename="Kosten Fähre.xlsx")
    found = read(file, message.as_bytes())
    assert found.title == "Kosten der Fähre"
    assert "Attachments: Kosten Fähre.xlsx\n\nSiehe Anhang, 1.204 €." in found.text
    assert lost(found) == "Kosten Fähre.xlsx: 1 hidden sheet"


def test_halves_of_surrogate_pairs_become_replacement_characters(file: Path) -> None:
    assert decoded(b"+2AA- x", "utf-7") == ("\N{REPLACEMENT CHARACTER} x", True)
    assert decoded(b"+2D3eAA- x", "utf-7") == ("\N{GRINNING FACE} x", False)
    bad, found = readings(file, parts("mixed", plain("Text."), attached("=?utf-7?Q?+2AA-.pdf?=", b"no PDF")))
    assert isinstance(bad, BadRow)
    assert bad.doc_id == "a, \N{REPLACEMENT CHARACTER}.pdf"
    assert isinstance(found, RawDocument)
    assert body(found) == "Text."


def test_a_body_that_makes_its_parser_fail_leaves_the_rest(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(mail, "page_of_html", fail)
    found = read(file, parts("alternative", plain("Text."), html("<p>Text 5.</p>")))
    assert (body(found), lost(found)) == ("Text.", "1 page that cannot be read")
