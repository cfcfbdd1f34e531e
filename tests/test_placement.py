"""Places by label and resource: what may be written, what Ray is told, which nodes fit."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from okralong.pipelines.core.config import AnswerPlacement, Place, unplaceable_parts

GPU = ({"okralong.io/group": "gpu", "spot": "true"}, {"CPU": 8.0, "GPU": 1.0, "embed_slot": 2.0})
CPU = ({"okralong.io/group": "cpu"}, {"CPU": 8.0})


def test_an_empty_place_says_nothing_to_ray() -> None:
    assert Place().options() == {}
    assert Place().takes(*CPU)


@pytest.mark.parametrize(
    ("labels", "on_gpu", "on_cpu"),
    [
        ({"okralong.io/group": "gpu"}, True, False),
        ({"okralong.io/group": "!gpu"}, False, True),
        ({"okralong.io/group": "in(cpu,gpu)"}, True, True),
        ({"okralong.io/group": "!in(cpu,tpu)"}, True, False),
        ({"spot": "!true"}, False, True),
        ({"okralong.io/group": "gpu", "spot": "!true"}, False, False),
    ],
)
def test_labels_choose_nodes(labels: dict[str, str], on_gpu: bool, on_cpu: bool) -> None:
    place = Place(labels=labels)
    assert (place.takes(*GPU), place.takes(*CPU)) == (on_gpu, on_cpu)
    assert place.options() == {"label_selector": labels}


def test_resources_choose_nodes() -> None:
    assert Place(resources={"embed_slot": 2.0}).takes(*GPU)
    assert not Place(resources={"embed_slot": 3.0}).takes(*GPU)
    assert not Place(resources={"embed_slot": 1.0}).takes(*CPU)


def test_a_fallback_takes_nodes_that_the_first_choice_does_not() -> None:
    spot = {"okralong.io/group": "spot"}
    place = Place(labels=spot, fallback=[{"okralong.io/group": "cpu"}])
    assert (place.takes(*GPU), place.takes(*CPU)) == (False, True)
    assert not Place(labels=spot).takes(*CPU)
    wanted = {"label_selector": spot, "fallback_strategy": [{"label_selector": {"okralong.io/group": "cpu"}}]}
    assert place.options() == wanted


def test_ray_runs_a_task_on_the_fallback(ray_cluster: None) -> None:
    import ray

    here = ray.get_runtime_context().get_node_id()
    place = Place(labels={"okralong.io/group": "spot"}, fallback=[{"ray.io/node-id": here}])
    task: Any = ray.remote(lambda: 7)
    assert ray.get(task.options(num_cpus=0, **place.options()).remote(), timeout=60) == 7


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"labels": {"a": "gpu or cpu"}}, "is not a selector"),
        ({"labels": {"a": "in()"}}, "is not a selector"),
        ({"labels": {"a b": "gpu"}}, "is not a label name"),
        ({"labels": {"a": "b"}, "fallback": [{"a": "b or c"}]}, "is not a selector"),
        ({"labels": {"a": "b"}, "fallback": [{}]}, "must have labels"),
        ({"resources": {"GPU": 1.0}}, "gpus_per_replica"),
        ({"resources": {"slot": 0.0}}, "more than 0"),
    ],
)
def test_a_place_that_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Place(**given)


def test_parts_without_a_home_are_named() -> None:
    placement = AnswerPlacement(analyzer=Place(labels={"okralong.io/group": "gpu"}))
    assert [part for part, _ in unplaceable_parts(placement, [CPU])] == ["analyzer"]
    assert unplaceable_parts(placement, [CPU, GPU]) == ()
