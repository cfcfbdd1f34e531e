"""Texts on their way into a page: bounded, without characters that act unseen, and never able to end their element."""

from __future__ import annotations

import json

from okralong.pipelines.reporting.page import BLOCK, blocks, compact, embedded_json, packed, unpacked
from okralong.pipelines.reporting.rows import bounded, plain
from tests.reporting.made_run import HOSTILE


def test_unseen_characters_become_blanks_of_the_same_length() -> None:
    text = "a\u202eb\u2066c\x1b[2Jd\x00e\ud800f\tg\nh"
    assert plain(text) == "a b c [2Jd e\ufffdf\tg\nh"
    assert len(plain(HOSTILE)) == len(HOSTILE)


def test_a_long_text_says_how_much_was_cut() -> None:
    assert bounded("x" * 5_000, 10) == "x" * 10 + " … [4,990 more characters]"
    assert bounded("short", 10) == "short"


def test_no_data_can_end_its_script_element() -> None:
    whole = embedded_json({HOSTILE: [HOSTILE]})
    assert "<" not in whole
    assert json.loads(whole) == {plain(HOSTILE): [plain(HOSTILE)]}
    assert "<" not in packed(compact([HOSTILE]))


def test_details_are_packed_in_blocks_and_come_back() -> None:
    details = [compact({"n": n}) for n in range(2 * BLOCK + 1)]
    held = [unpacked(block) for block in blocks(details)]
    assert [len(block) for block in held] == [BLOCK, BLOCK, 1]
    assert held[2] == [{"n": 2 * BLOCK}]
    assert list(blocks([])) == []
