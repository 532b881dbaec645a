"""Readings of /proc about the network, and the sensor on namespaces, on directories that look like /proc."""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.testbeds.host import bpf
from framework.testbeds.host.namespaces import (
    group_of,
    namespace_of,
    near_networks,
    outgoing_interface,
    process_in,
    sent_bytes,
    shared,
)
from framework.testbeds.host.network_use import NetworkUse
from framework.testbeds.host.rates import Rates
from framework.testbeds.host.traffic_control import BURST_S, LEAST_BURST, Bucket, whole_bytes

HOST = "net:[1]"
DEV = """Inter-|   Receive                  |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:    9000       9    0    0    0     0    0     0     9000       9    0    0    0     0       0     0
  eth0:{received}     5    0    0    0     0    0     0 {sent}         3    0    0    0     0       0     0
"""


def native(address: str) -> int:
    """Return an address as the kernel prints it in /proc/net/route: the packet's bytes, read as a number."""
    return int.from_bytes(socket.inet_aton(address), sys.byteorder)


def route(interface: str, destination: str, gateway: str, mask: str, metric: int = 0) -> str:
    fields = [f"{native(destination):08X}", f"{native(gateway):08X}", "0001", "0", "0", str(metric)]
    return "\t".join([interface, *fields, f"{native(mask):08X}", "0", "0", "0"])


class FakeProc:
    """A directory that looks like /proc; this process is in the namespace HOST."""

    def __init__(self, path: Path, mount: Path) -> None:
        self.path = path
        self.add("thread-self", HOST, "/guard")
        self.add("self", HOST, "/guard")
        (path / "self" / "mounts").write_text(f"cgroup2 {mount} cgroup2 rw 0 0\n")

    def add(self, pid: int | str, namespace: str, group: str, sent: int = 0) -> None:
        directory = self.path / str(pid)
        for name in ("ns", "net"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        link = directory / "ns" / "net"
        link.unlink(missing_ok=True)
        link.symlink_to(namespace)
        (directory / "cgroup").write_text(f"3:cpu:/elsewhere\n0::{group}\n")
        self.sent(pid, sent)
        self.routes(pid)

    def sent(self, pid: int | str, sent: int) -> None:
        (self.path / str(pid) / "net" / "dev").write_text(DEV.format(received=77, sent=sent))

    def routes(self, pid: int | str, *lines: str) -> None:
        (self.path / str(pid) / "net" / "route").write_text("\n".join(["Iface\tDestination\t...", *lines]) + "\n")


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc", tmp_path / "unified")


def test_the_outgoing_interface_is_that_of_the_cheapest_default_route(proc: FakeProc) -> None:
    assert outgoing_interface(proc.path) == ""
    proc.routes(
        "thread-self",
        route("wlan0", "0.0.0.0", "10.0.0.1", "0.0.0.0", metric=600),
        route("eth0", "0.0.0.0", "192.0.2.1", "0.0.0.0", metric=100),
        route("docker0", "172.17.0.0", "0.0.0.0", "255.255.0.0"),
    )
    assert outgoing_interface(proc.path) == "eth0"


def test_networks_without_a_gateway_are_near(proc: FakeProc) -> None:
    proc.add(7, "net:[2]", "/job")
    assert near_networks(proc.path, 7) == ()
    proc.routes(
        7, route("eth0", "0.0.0.0", "172.17.0.1", "0.0.0.0"), route("eth0", "172.17.0.0", "0.0.0.0", "255.255.0.0"),
        route("eth0", "10.9.0.0", "172.17.0.9", "255.255.0.0"),
    )  # fmt: skip
    assert near_networks(proc.path, 7) == (bpf.Network(native("172.17.0.0"), native("255.255.0.0")),)
    assert near_networks(proc.path, 8) == ()


def test_a_process_is_found_in_its_namespace(proc: FakeProc) -> None:
    proc.add(7, "net:[2]", "/job")
    proc.add(8, "net:[3]", "/job")
    assert namespace_of(proc.path, 7) == "net:[2]"
    assert namespace_of(proc.path, 9) is None
    assert process_in(proc.path, "net:[3]", 8) == 8
    assert process_in(proc.path, "net:[3]", 7) == 8  # 7 is now another process
    assert process_in(proc.path, "net:[4]", 7) is None


def test_the_loopback_does_not_count(proc: FakeProc) -> None:
    proc.add(7, "net:[2]", "/job", sent=1234)
    assert sent_bytes(proc.path, 7) == 1234
    assert sent_bytes(proc.path, 8) is None


def test_only_a_group_of_its_own_counts(proc: FakeProc, tmp_path: Path) -> None:
    for pid, group in ((7, "/docker/7"), (8, "/"), (9, "/guard"), (10, "/guard/below")):
        proc.add(pid, "net:[2]", group)
    assert group_of(proc.path, 7) == tmp_path / "unified" / "docker" / "7"
    assert group_of(proc.path, 8) is None
    assert group_of(proc.path, 9) is None
    assert group_of(proc.path, 10) == tmp_path / "unified" / "guard" / "below"
    assert group_of(proc.path, 11) is None


def test_groups_of_both_sides_are_shared() -> None:
    lc, be, both = Path("/g/lc"), Path("/g/be"), Path("/g/both")
    assert shared([lc, None], [be, None]) == set()
    assert shared([lc, both], [be, both]) == {both}
    assert shared([lc], [lc / "inner"]) == {lc}
    assert shared([be / "inner"], [be]) == {be}


def test_a_namespace_counts_once_and_new_ones_begin_at_zero(proc: FakeProc) -> None:
    for pid, namespace in ((1, "net:[2]"), (2, "net:[2]"), (3, "net:[3]")):
        proc.add(pid, namespace, "/", sent=1000)
    jobs = {"job": ("batch", 3)}
    use = NetworkUse(lambda: {"a": 1, "b": 2}, lambda: jobs, by_group=False, proc=proc.path)
    assert use.missing() == ""
    assert use.read(10.0) == {}
    for pid in (1, 2):
        proc.sent(pid, 1000 + 250_000)
    assert use.read(12.0) == {"lc_mbps": 1.0, "be_mbps": 0.0}
    proc.add(4, "net:[4]", "/", sent=10**9)
    jobs["another"] = ("batch", 4)
    assert use.read(14.0) == {"lc_mbps": 0.0, "be_mbps": 0.0}
    proc.sent(4, 10**9 + 500_000)
    assert use.read(16.0) == {"lc_mbps": 0.0, "be_mbps": 2.0}
    assert use.read(16.5) == {"lc_mbps": 0.0, "be_mbps": 2.0}  # its window is not over


def test_what_cannot_be_told_apart_is_not_read(proc: FakeProc) -> None:
    proc.add(1, "net:[2]", "/")
    proc.add(2, "net:[2]", "/")
    use = NetworkUse(lambda: {"service": 1}, lambda: {"job": ("batch", 2)}, by_group=False, proc=proc.path)
    assert "service" in use.missing()
    assert [use.read(second) for second in (0.0, 5.0, 10.0)] == [{}, {}, {}]
    proc.add(2, HOST, "/")
    assert "job" in use.missing()
    assert [set(use.read(second)) for second in (15.0, 20.0)] == [set(), {"lc_mbps"}]


def test_lc_without_a_process_is_not_idle(proc: FakeProc) -> None:
    use = NetworkUse(lambda: {"gone": 99}, dict, by_group=False, proc=proc.path)
    assert [use.read(second) for second in (0.0, 5.0)] == [{}, {"be_mbps": 0.0}]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**6)), min_size=2, max_size=6))
def test_growth_is_never_negative(counters: list[dict[str, float]]) -> None:
    rates = Rates(1.0)
    readings = [rates.growth(2.0 * number, counter) for number, counter in enumerate(counters)]
    assert readings[0] is None
    assert all(reading is not None and reading >= 0 for reading in readings[1:])


@given(st.floats(1e3, 4e11))
def test_a_bucket_holds_enough_to_send_and_one_hundredth_of_a_second_otherwise(bps: float) -> None:
    bucket = Bucket(1, whole_bytes(bps), whole_bytes(bps))
    assert abs(bucket.rate_bps - bps) <= 4
    assert bucket.rate_bps % 8 == 0
    held = bucket.buffer_s * bucket.rate_bps / 8
    assert held >= LEAST_BURST - 1e-6
    assert held == pytest.approx(LEAST_BURST) or bucket.buffer_s == BURST_S


def test_jumps_count_instructions_from_the_next_one() -> None:
    code = bpf.assemble([
        bpf.jump_if_equal(2, 5, "far"),
        bpf.load_map(1, 3),  # two instructions long
        bpf.jump_if_null(0, "next"),
        "next",
        bpf.set_to(0, 0),
        "far",
        bpf.leave(),
    ])  # fmt: skip
    offsets = [struct.unpack_from("=h", code, 2 + 8 * place)[0] for place in range(len(code) // 8)]
    assert offsets == [4, 0, 0, 0, 0, 0]


@given(st.integers(0, 10), st.integers(-(2**31), 2**32 - 1))
def test_constants_keep_their_bits(register: int, constant: int) -> None:
    (found,) = struct.unpack_from("=I", bpf.set_to(register, constant), 4)
    assert found == constant % 2**32
