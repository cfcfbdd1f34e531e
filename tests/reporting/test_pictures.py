"""The picture is an SVG that says what it shows, and the same one each time."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib
import pytest

from okralong.lab.evidence.pictures import RecallLine, RecallPanel, draw_recall

PANELS = [
    RecallPanel(
        "HotpotQA",
        1204,
        37,
        [RecallLine("ours", [300, 700, 2600], [0.4, 0.6, 0.9]), RecallLine("Std-RAG", [2560], [0.57])],
    ),
    RecallPanel("Filings, $ & cents", 90, 1, [RecallLine("ours", [650, 310], [0.7, 0.5])], measure="answer recall"),
    RecallPanel("QMSum", 3, 2, [RecallLine("BM25 only", [512], [0.3])]),
    RecallPanel("Qasper", 3, 2, [RecallLine("ours", [512], [0.3])]),
]


def test_the_picture_names_its_sets_counts_and_methods(tmp_path: Path) -> None:
    path = tmp_path / "new" / "picture.svg"
    draw_recall(path, PANELS)
    root = ET.parse(path).getroot()
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for wanted in ("HotpotQA", "Filings, $ & cents", "1,204 questions, 37 documents", "90 questions, 1 document"):
        assert wanted in words
    for label in ("ours", "Std-RAG", "BM25 only"):
        assert words.count(label) == 1
    assert {"250", "500", "1k", "2k", "4k", "evidence recall", "answer recall"} <= set(words)
    assert root.attrib["width"] == "648pt"


def test_the_same_points_give_the_same_bytes(tmp_path: Path) -> None:
    draw_recall(tmp_path / "one.svg", PANELS)
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "other"}):
        draw_recall(tmp_path / "two.svg", PANELS)
    one = (tmp_path / "one.svg").read_bytes()
    assert one == (tmp_path / "two.svg").read_bytes()
    assert b"<dc:date>" not in one


def test_nothing_to_draw_is_an_error(tmp_path: Path) -> None:
    for panels in ([], [RecallPanel("QMSum", 0, 0, [])], [RecallPanel("QMSum", 1, 1, [RecallLine("ours", [0], [0])])]):
        with pytest.raises(ValueError, match="more than zero tokens"):
            draw_recall(tmp_path / "picture.svg", panels)
