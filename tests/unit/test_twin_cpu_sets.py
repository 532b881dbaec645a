"""CPU sets in a twin: how hosts are cut, and what neighbours do to each other."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import InputError
from framework.model.cpus import write_cpus
from framework.model.twin import Twin, TwinHost, TwinService
from framework.twin.cpu_sets import places_of, slowdowns, topology_of

NAMES = ("a", "b", "c")


def twin(
    cores: int = 8,
    sensitivity: Mapping[str, Mapping[str, float]] | None = None,
    pressure: Mapping[str, Mapping[str, float]] | None = None,
) -> Twin:
    services = tuple(
        TwinService(name, "h", sensitivity=(sensitivity or {}).get(name, {}), pressure=(pressure or {}).get(name, {}))
        for name in NAMES
    )
    return Twin("x", {}, (), services, (), (TwinHost("h", cores),))


def test_a_modelled_host_has_a_topology() -> None:
    topology = topology_of(TwinHost("h", 16, nodes=2))
    assert {name: write_cpus(cpus) for name, cpus in topology.domains(2).items()} == {"node1": "0-7", "node2": "8-15"}
    assert len(topology.groups("cache")) == len(topology.groups("package")) == 2
    assert topology_of(TwinHost("h", 1)).numbers == (0,)


def cut(sets: Mapping[str, str], cores: int = 8) -> list[tuple[float, str]]:
    """Return the cores of each part, and the services that may use it."""
    places = places_of(twin(cores), dict.fromkeys(NAMES, "h"), sets)
    return [
        (float(size), "".join(name for name, may in zip(NAMES, column, strict=True) if may))
        for size, column in zip(places.cores, places.reach.T, strict=True)
    ]


def test_a_host_is_cut_where_the_sets_differ_and_nowhere_else() -> None:
    assert cut({}) == [(8, "abc")]
    assert cut({"a": "0-3", "b": "4-7", "c": "0-3"}) == [(4, "ac"), (4, "b")]
    assert cut({"a": "0-3", "b": "4-7"}) == [(4, "ac"), (4, "bc")], "c may use all"
    assert cut({"a": "0-4", "b": "3-7", "c": "7"}) == [(3, "a"), (2, "ab"), (2, "b"), (1, "bc")]
    assert cut({"a": "0", "b": "0", "c": "0"}) == [(1, "abc"), (7, "")]


@given(st.dictionaries(st.sampled_from(NAMES), st.sets(st.integers(0, 7), min_size=1)))
def test_each_service_has_the_cpus_of_its_set(sets: dict[str, set[int]]) -> None:
    places = places_of(twin(), dict.fromkeys(NAMES, "h"), {name: write_cpus(cpus) for name, cpus in sets.items()})
    has = places.reach @ places.cores
    assert has.tolist() == [len(sets.get(name, range(8))) for name in NAMES]
    assert places.cores.sum() == 8
    assert places.share.sum(axis=1) == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("cpus", ["", "8", "0-9"])
def test_cpus_that_are_not_there_are_refused(cpus: str) -> None:
    with pytest.raises(InputError, match=r"a\.cpuset: found .*; allowed in the twin: some of 0-7"):
        places_of(twin(), dict.fromkeys(NAMES, "h"), {"a": cpus})


def test_others_are_missing_everywhere_alike() -> None:
    busy = Twin("x", {}, (), tuple(TwinService(name, "h") for name in NAMES), (), (TwinHost("h", 4, others=1.0),))
    assert places_of(busy, dict.fromkeys(NAMES, "h"), {"a": "0"}).cores.tolist() == [0.75, 2.25]


def test_a_neighbour_counts_by_the_time_that_it_is_near() -> None:
    def slower(sets: Mapping[str, str]) -> float:
        model = twin(sensitivity={"a": {"l3": 0.5}}, pressure={"b": {"l3": 2.0}})
        factors = slowdowns(model, places_of(model, dict.fromkeys(NAMES, "h"), sets))
        assert factors[1:].tolist() == [1.0, 1.0], "only the sensitive one is slower"
        return float(factors[0])

    assert slower({}) == 1.0, "as at the calibration"
    # Everything everywhere: together half of the time, once there are two halves.
    assert slower({"a": "0-3", "b": "4-7"}) == pytest.approx(exp(-0.5))
    assert slower({"a": "0-3", "b": "0-3"}) == pytest.approx(exp(+0.5))
    assert slower({"a": "0-3"}) == pytest.approx(1.0)


def test_without_profiles_nobody_is_slower() -> None:
    model = twin()
    assert np.array_equal(slowdowns(model, places_of(model, dict.fromkeys(NAMES, "h"), {"a": "0"})), np.ones(3))
