"""Cases of plans that are known: the source's, the example, and how needs and laws are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from framework.capacity.counting import Request
from framework.capacity.demand import demand, drawn
from framework.capacity.laws import fit
from framework.capacity.nodes import MeasuredNode, pooled_cores
from framework.capacity.plan import plan
from framework.config.machine_catalogue import load_catalogue
from framework.config.need_file import load_need
from framework.model.capacity import Interval, Need, ScalingPoint
from tests.unit.test_capacity_plan import EXACTLY, EXAMPLES, NEED


def test_the_case_of_the_source() -> None:
    """Its formula to the cent; and what its plan of one machine with 128 cores and 100 TB of memory left out."""
    *shapes, imagined = load_catalogue(EXAMPLES / "machines.yaml")
    assert imagined.price_per_hour is not None
    assert round(imagined.price_per_hour, 2) == round(128 * 0.0224525 + 100 * 1024 * 0.00134715, 2) == 140.82
    gets, puts = fit([ScalingPoint(16, 1_123_453)]), fit([ScalingPoint(16, 655_631)], seed=1)
    need = Need("source", EXACTLY(10e6), EXACTLY(5e5), EXACTLY(100e12), EXACTLY(1024), key_bytes=8)
    wanted = demand(need, 1, 0)
    busy = [16 * rate / float(law.rps(16)) for law, rate in ((gets, 10e6), (puts, 5e5))]
    assert [round(cores, 1) for cores in busy] == [142.4, 12.2]
    assert pooled_cores(sum(busy)) == pytest.approx(176.5, abs=0.01)
    assert wanted.bytes_out[0] * 8 / 1e9 == pytest.approx(82.56)
    assert (wanted.bytes_in[0] - 10e6 * 8) * 8 / 1e9 == pytest.approx(4.128)
    assert pytest.approx(333e9, rel=0.01) == 100e12 / 300  # bytes/s of a snapshot in five minutes
    node = MeasuredNode(gets, puts, extrapolate=True)
    answer = plan(Request(replace(need, latency_s=EXACTLY(1e-3)), node), shapes)
    chosen = answer.plans[0]
    # No machine has 100 TB of memory: 92 of those with the most memory a core have it, and more cores than enough.
    assert (chosen.machine.name, chosen.nodes, chosen.binding) == ("flexible-16-1024", 92, "memory")
    assert chosen.by_resource["cpu"] < 30
    assert round(chosen.cost_per_hour, 2) == round(92 * (16 * 0.0224525 + 1024 * 0.00134715), 2) == 159.96
    # A second copy in another failure domain doubles it.
    safe = replace(need, replicas=2, failure_domains=2, latency_s=EXACTLY(1e-3))
    assert plan(Request(safe, node), shapes).plans[0].nodes >= 2 * 92 - 2


def test_the_example_has_plans() -> None:
    need = load_need(EXAMPLES / "need.yaml")
    node = MeasuredNode(fit([ScalingPoint(16, 1_123_453)]), fit([ScalingPoint(16, 655_631)], seed=1))
    answer = plan(Request(need, node, 200), load_catalogue(EXAMPLES / "machines.yaml"))
    assert [entry.machine.name for entry in answer.plans] == ["flexible-32", "flexible-16-1024", "flexible-64"]
    assert len(answer.refused) == 2


def test_draws_of_the_need_and_of_the_laws_are_independent() -> None:
    """Else fast laws would meet high loads, and intervals would be too narrow."""
    wide = replace(NEED, reads=Interval(1e6, 2e6, 4e6), writes=Interval(1e4, 1e5, 2e5))
    law, wanted = fit([ScalingPoint(16, 1e6)], 5), demand(wide, 4_000, 5)
    quick = fit([ScalingPoint(16, 1e6)], 6)
    columns = [wanted.reads[1:], wanted.writes[1:], law.rps_of_draws(64), quick.rps_of_draws(64)]
    correlations = np.abs(np.corrcoef(columns) - np.eye(4))
    assert correlations.max() < 0.05


def test_triangular_draws() -> None:
    ranks = (np.arange(20_000) + 0.5) / 20_000
    values = drawn(Interval(1.0, 2.0, 6.0), ranks)[1:]
    assert values.mean() == pytest.approx(3.0, abs=1e-3)  # (low + likely + high) / 3
    assert values.min() >= 1
    assert values.max() <= 6
    assert np.mean(values < 2) == pytest.approx(0.2, abs=1e-3)
