"""Which questions a pilot asks."""

from __future__ import annotations

from collections import Counter

from okralong.pipelines.run.dry_run import Outlook
from okralong.pipelines.run.estimate import draw_pilot

WORKFLOWS = {**{f"q{n:03d}": "linear" for n in range(160)}, **{f"s{n:02d}": "split" for n in range(38)}, "t": "step"}
OUTLOOKS = [Outlook(query_id, "extractive", workflow, {}, {}) for query_id, workflow in WORKFLOWS.items()]


def test_each_workflow_has_one_and_then_its_share() -> None:
    assert Counter(WORKFLOWS[each] for each in draw_pilot(OUTLOOKS, 3, 1)) == {"linear": 1, "split": 1, "step": 1}
    many = Counter(WORKFLOWS[each] for each in draw_pilot(OUTLOOKS, 50, 1))
    assert many["step"] == 1
    assert 8 <= many["split"] <= 11


def test_a_larger_pilot_holds_the_smaller_and_the_seed_decides() -> None:
    small, large = draw_pilot(OUTLOOKS, 10, 1), draw_pilot(OUTLOOKS, 30, 1)
    assert large[:10] == small == draw_pilot(list(reversed(OUTLOOKS)), 10, 1)
    assert set(small) != set(draw_pilot(OUTLOOKS, 10, 2))
    assert len(draw_pilot(OUTLOOKS, 1000, 1)) == len(set(draw_pilot(OUTLOOKS, 1000, 1))) == len(WORKFLOWS)
    assert draw_pilot(OUTLOOKS, 0, 1) == []
