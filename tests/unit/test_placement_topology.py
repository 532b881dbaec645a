"""The machine's topology, read from the files of machines of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from framework.errors import InputError, MissingPrerequisite
from framework.model.cpus import read_cpus, write_cpus
from framework.model.topology import Topology
from framework.testbeds.host.topology import read_topology

CASES = sorted((Path(__file__).resolve().parents[1] / "cases" / "topology").glob("*.yaml"))


def case(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(path.read_text())
    return loaded


def sysfs(about: dict[str, Any], root: Path) -> Path:
    """The files of /sys that a case stands for."""

    def put(name: str, text: object) -> None:
        path = root / "devices" / "system" / "cpu" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    put("online", about["online"])
    put("present", about.get("present", about["online"]))
    siblings = "thread_siblings_list" if about.get("old_kernel") else "core_cpus_list"
    for core, core_id in zip(about["cores"], about["core_ids"], strict=True):
        for cpu in read_cpus(core):
            put(f"cpu{cpu}/topology/{siblings}", core)
            put(f"cpu{cpu}/topology/core_id", core_id)
    for kind, name in (("packages", "physical_package_id"), ("nodes", "")):
        for number, cpus in about[kind].items():
            for cpu in read_cpus(cpus):
                put(f"cpu{cpu}/topology/{name}" if name else f"cpu{cpu}/node{number}/cpulist", number if name else cpus)
    for index, cache in enumerate(about["caches"]):
        for shared in about["cores"] if cache["shared"] == "cores" else cache["shared"]:
            for cpu in read_cpus(shared):
                for name in ("level", "type", "size"):
                    put(f"cpu{cpu}/cache/index{index}/{name}", cache[name])
                put(f"cpu{cpu}/cache/index{index}/shared_cpu_list", shared)
    return root


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def about(request: pytest.FixtureRequest) -> dict[str, Any]:
    return case(request.param)


def test_groups_and_domains(about: dict[str, Any], tmp_path: Path) -> None:
    topology = read_topology(sysfs(about, tmp_path))
    wanted = about["expect"]
    assert topology.numbers == read_cpus(about["online"])
    assert {by: len(topology.groups(by)) for by in wanted["groups"]} == wanted["groups"]
    for groups in (topology.groups(by) for by in wanted["groups"]):
        assert sorted(cpu for cpus in groups.values() for cpu in cpus) == list(topology.numbers), "each CPU once"
    for count, sets in wanted["domains"].items():
        assert [write_cpus(cpus) for cpus in topology.domains(count).values()] == sets
    if "largest_cache" in wanted:
        last = max(topology.caches, key=lambda cache: cache.level)
        assert [last.level, last.size_bytes] == wanted["largest_cache"]
    assert list(topology.offline) == wanted.get("offline", [])


def test_a_part_of_the_machine(about: dict[str, Any], tmp_path: Path) -> None:
    """A cpuset: what is outside of it is in no group, domain or cache."""
    root = sysfs(about, tmp_path)
    online = read_cpus(about["online"])
    for some in (online[:1], online[len(online) // 2 :], online[::2]):
        topology = read_topology(root, allowed=some)
        assert topology.numbers == some
        assert {cpu for cache in topology.caches for cpu in cache.cpus} <= set(some)
        for count in range(1, min(len(some), 6) + 1):
            domains = topology.domains(count)
            assert len(domains) == count
            assert all(domains.values())
            assert sorted(cpu for cpus in domains.values() for cpu in cpus) == list(some)


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingPrerequisite, match="does not describe its CPUs"):
        read_topology(tmp_path)
    root = sysfs(case(CASES[0]), tmp_path)
    with pytest.raises(InputError, match="none of 900 is online"):
        read_topology(root, allowed=[900])
    with pytest.raises(InputError, match="allowed: 1 to"):
        read_topology(root).domains(1_000)
    with pytest.raises(InputError, match="core, cache, node, package"):
        read_topology(root).groups("die")
    with pytest.raises(InputError, match="allowed: some of"):
        read_topology(root).only([900])


def test_the_memory_that_a_set_of_cpus_has_of_its_own(tmp_path: Path) -> None:
    [two_sockets] = [path for path in CASES if path.stem == "two-sockets-smt"]
    root = sysfs(case(two_sockets), tmp_path)
    first, second = (read_cpus(text) for text in ("0-9,20-29", "10-19,30-39"))
    assert read_topology(root).own_memory_mib(first) is None, "not said"
    for node, kilobytes in ((0, 32 * 2**20), (1, 16 * 2**20)):
        path = root / "devices" / "system" / "node" / f"node{node}" / "meminfo"
        path.parent.mkdir(parents=True)
        path.write_text(f"Node {node} MemTotal:       {kilobytes} kB\nNode {node} MemFree:          12 kB\n")
    topology = read_topology(root)
    assert topology.own_memory_mib(first) == 32 * 2**10
    assert topology.own_memory_mib(second) == 16 * 2**10
    assert topology.own_memory_mib([*first, *second]) == 48 * 2**10
    assert topology.own_memory_mib(first[:5]) is None, "others are next to it too"
    assert topology.only(first[:5]).own_memory_mib(first[:5]) == 32 * 2**10, "where no others may be used"


def test_this_machine() -> None:
    topology: Topology = read_topology()
    assert len(topology.numbers) >= 1
    assert sum(len(cpus) for cpus in topology.groups("core").values()) == len(topology.numbers)


@given(st.sets(st.integers(0, 300)))
def test_lists_of_cpus_come_back(cpus: set[int]) -> None:
    assert read_cpus(write_cpus(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["a", "1-", "3-1", "-1", "1.5", "0-99999", "²"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="CPUs: found"):
        read_cpus(text)
