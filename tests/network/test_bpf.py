"""eBPF programs on the kernel, and the sensor that reads them."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from framework.errors import KnobRefused
from framework.testbeds.host import bpf
from framework.testbeds.host.namespaces import PROC, near_networks
from framework.testbeds.host.network_use import NetworkUse
from framework.testbeds.host.traffic_control import in_namespace
from tests.network.namespaces import FRAME, PAYLOAD, PORT, connect, control_groups, holder, in_new_namespace
from tests.network.test_network_share import Sender

pytestmark = pytest.mark.network
SENDERS_FRAME = 100 + 8 + 20 + 14
QUERY = 16


def attached(group: Path, direction: int) -> int:
    """Return how many programs are attached to a group (bpf(2), BPF_PROG_QUERY)."""
    descriptor = os.open(group, os.O_RDONLY)
    try:
        attributes = ctypes.create_string_buffer(struct.pack("=IIIIQIIQQQ", descriptor, direction, *[0] * 8))
        libc = ctypes.CDLL(None)
        assert libc.syscall(bpf.SYSCALLS[os.uname().machine], QUERY, attributes, len(attributes.raw) - 1) == 0
        return int(struct.unpack_from("=I", attributes.raw, 24)[0])
    finally:
        os.close(descriptor)


def test_bytes_are_counted_on_the_wire() -> None:
    def scenario() -> None:
        with holder() as outside, control_groups("counted") as (group,), IPRoute() as netlink:
            connect(netlink, outside)
            (index,) = netlink.link_lookup(ifname="eth0")
            with Sender(group) as sender:
                near = near_networks(PROC, sender.process.pid)
                counters = {
                    "all": bpf.Counter(group),
                    "eth0": bpf.Counter(group, index),
                    "another interface": bpf.Counter(group, index + 1),
                    "beyond": bpf.Counter(group, None, near),
                    "received": bpf.Counter(group, direction=bpf.INGRESS),
                }
                sender.send(7)
                read = {name: counter.read() for name, counter in counters.items()}
                for counter in counters.values():
                    counter.close()
                    counter.close()
            sent = 7 * SENDERS_FRAME
            assert read == {"all": sent, "eth0": sent, "another interface": 0, "beyond": 0, "received": 0}
            assert attached(group, bpf.EGRESS) == attached(group, bpf.INGRESS) == 0

    in_new_namespace(scenario)


def test_segments_count_with_their_headers() -> None:
    """TCP hands the kernel packets of many segments; the interface would send each with its headers."""
    with control_groups("tcp") as (group,):
        command = [sys.executable, "-c", TCP, str(group / "cgroup.procs")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            counter = bpf.Counter(group, bpf.LOOPBACK)
            process.stdin.close()
            sent, mss = map(int, process.stdout.readline().split())
            counted = counter.read()
            counter.close()
    segments = -(-sent // mss)
    assert counted >= sent + segments * bpf.SEGMENT_HEADERS


TCP = """
import os, socket, sys
open(sys.argv[1], "w").write(str(os.getpid()))
listening, sending = socket.create_server(("127.0.0.1", 0)), socket.socket()
sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1448)
sending.connect(listening.getsockname())
accepted, _ = listening.accept()
print("ready", flush=True)
sys.stdin.read()
left = total = 300_000
while left:
    left -= sending.send(bytes(min(left, 50_000)))
    got = accepted.recv(1_000_000)
print(total, sending.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG), flush=True)
"""


def test_programs_of_others_stay() -> None:
    with control_groups("both") as (group,):
        first, second = bpf.Counter(group), bpf.Priority(group, 0x10020)
        assert attached(group, bpf.EGRESS) == 2
        first.close()
        assert attached(group, bpf.EGRESS) == 1
        second.close()
        second.close()
        assert attached(group, bpf.EGRESS) == 0


KILLED = """
import sys, time
from pathlib import Path
from framework.testbeds.host import bpf
kept = bpf.Counter(Path(sys.argv[1])), bpf.Priority(Path(sys.argv[1]), 0x10020)
print("attached", flush=True)
time.sleep(600)
"""


def test_a_killed_process_leaves_nothing() -> None:
    with control_groups("killed") as (group,):
        with subprocess.Popen([sys.executable, "-c", KILLED, str(group)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"attached\n"
            assert attached(group, bpf.EGRESS) == 2
            process.send_signal(signal.SIGKILL)
        assert attached(group, bpf.EGRESS) == 0


def test_a_refused_program_says_what_the_verifier_says() -> None:
    with pytest.raises(KnobRefused, match="R0 !read_ok"):
        bpf.load_program("a program without an answer", bpf.leave(), bpf.EGRESS)


def test_no_descriptor_stays_open() -> None:
    with control_groups("descriptors") as (group,):
        before = len(list(Path("/proc/self/fd").iterdir()))
        bpf.missing()
        bpf.Counter(group).close()
        bpf.Priority(group, 1).close()
        with pytest.raises(KnobRefused):
            bpf.Counter(group / "not there")
        assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_the_sensor_tells_lc_from_be_in_the_hosts_network() -> None:
    def scenario() -> None:
        with holder() as outside, control_groups("lc", "be") as (lc_group, be_group):
            with IPRoute() as netlink:
                connect(netlink, outside)
            with Sender(lc_group) as lc, Sender(be_group) as be:
                jobs = {"job": ("batch", be.process.pid)}
                use = NetworkUse(lambda: {"service": lc.process.pid}, lambda: jobs, window_s=1.0, interface="eth0")
                assert use.missing() == ""
                assert use.read(0.0) == {}
                lc.send(30)
                be.send(10)
                megabit = SENDERS_FRAME * 8 / 1e6
                assert use.read(2.0) == pytest.approx({"lc_mbps": 15 * megabit, "be_mbps": 5 * megabit})
                jobs.clear()
                assert use.read(3.0) == {"lc_mbps": 0.0, "be_mbps": 0.0}
                assert attached(be_group, bpf.EGRESS) == 0
                assert attached(lc_group, bpf.EGRESS) == 1
                use.close()
                assert attached(lc_group, bpf.EGRESS) == 0

    in_new_namespace(scenario)


def test_without_groups_the_sensor_reads_the_interfaces_of_namespaces() -> None:
    with holder() as service, holder() as outside:
        in_namespace(service.path, lambda netlink: connect(netlink, outside))
        use = NetworkUse(lambda: {"a": service.pid, "b": service.pid}, dict, by_group=False)
        use.read(0.0)
        with service.socket(socket.SOCK_DGRAM) as sending:
            for _ in range(20):
                sending.sendto(bytes(PAYLOAD), ("198.18.0.2", PORT))
        read = use.read(1.0)
        assert read["be_mbps"] == 0
        assert read["lc_mbps"] >= 20 * FRAME * 8 / 1e6
        assert read["lc_mbps"] < 30 * FRAME * 8 / 1e6  # once, with some packets of the kernel's own
