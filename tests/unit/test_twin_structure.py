"""The structure of requests, learnt from real traces and from small ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.traces.files import read_all
from framework.twin.calibration.structure import structure
from tests.span_tables import Row, span_table

REAL = Path(__file__).resolve().parents[1] / "cases" / "traces" / "real" / "social-network-load150.json.gz"


def test_calls_that_follow_each_other_and_calls_that_overlap() -> None:
    def trace(begin: int) -> list[Row]:
        return [
            Row("web", begin, begin + 1000),
            Row("cache", begin + 100, begin + 200, 0, kind="client", peer="cache"),
            Row("a", begin + 300, begin + 500, 0, kind="client", peer="a"),
            Row("b", begin + 310, begin + 600, 0, kind="client", peer="b"),
        ]

    learnt_structure = structure(span_table(trace(0)), "")
    [learnt] = [operation for operation in learnt_structure.operations if len(operation.slots) == 3]
    assert [slot.mode for slot in learnt.slots] == ["wait", "wait", "parallel"]
    assert [slot.probability for slot in learnt.slots] == [1.0, 1.0, 1.0]
    assert learnt.pieces_us == pytest.approx((0.1, 0.1, 0.0, 0.4))
    assert learnt.own.mean_us == pytest.approx(0.6)


def test_the_social_network() -> None:
    learnt_structure = structure(read_all([str(REAL)]).spans, "nginx")
    assert learnt_structure.traces == 2_500
    assert sum(learnt_structure.classes.values()) == pytest.approx(1.0)
    assert {name.partition(" ")[0] for name in learnt_structure.classes} == {"nginx"}
    assert sorted(learnt_structure.classes.values())[-1] == pytest.approx(0.6, abs=0.04), "most read home timelines"
    services = {operation.key[0] for operation in learnt_structure.operations}
    assert {"nginx", "home-timeline", "post-storage", "post-storage-memcached", "home-timeline-redis"} <= services
    for learnt in learnt_structure.operations:
        assert sum(learnt.pieces_us) == pytest.approx(learnt.own.mean_us, rel=0.02, abs=1.0)
        assert all(0 < slot.probability <= 1 for slot in learnt.slots)
    below = {slot.callee for learnt in learnt_structure.operations for slot in learnt.slots}
    assert below <= {operation.key for operation in learnt_structure.operations}
