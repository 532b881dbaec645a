"""The network actuator, on real interfaces in namespaces of the tests' own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from framework.errors import KnobRefused
from framework.model.guard import Setting
from framework.testbeds.host import traffic_control
from framework.testbeds.host.journal import Journal
from framework.testbeds.host.network import BE, LEAST_BPS, OWN, REST, NetworkShare, undo_of_network
from framework.testbeds.host.traffic_control import HANDLE, Bucket, in_namespace
from tests.network.namespaces import (
    FRAME,
    PAYLOAD,
    PORT,
    Holder,
    connect,
    control_groups,
    holder,
    in_new_namespace,
    pair,
    qdiscs,
    received,
)

pytestmark = pytest.mark.network
Jobs = Mapping[str, tuple[str, int]]
KERNELS_CHOICE = [("noqueue", 0, traffic_control.ROOT)]


def journal_in(directory: Path) -> Journal:
    return Journal(directory / "journal", "this boot", undo_of_network())


def share_of(directory: Path, jobs: Jobs, lc: Mapping[str, int] | None = None, interface: str = "") -> NetworkShare:
    return NetworkShare(lambda: lc or {}, lambda: jobs, journal_in(directory), link_mbps=1000, interface=interface)


def buckets(held: Holder | None, name: str = "eth0") -> dict[int, Bucket]:
    def read(netlink: IPRoute) -> dict[int, Bucket]:
        interface = traffic_control.interface(netlink, name)
        assert interface is not None
        return interface.buckets()

    return in_namespace(held.path if held else None, read)


@contextmanager
def flood(held: Holder, address: str) -> Iterator[None]:
    """Send packets as fast as the interface takes them."""
    stop = threading.Event()
    with held.socket() as sending:
        sending.settimeout(0.2)
        sending.connect((address, PORT))

        def send() -> None:
            while not stop.is_set():
                try:
                    sending.send(bytes(PAYLOAD))
                except OSError:  # no room in the queue yet; nobody listens
                    continue

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def measured(far: Holder, seconds: float) -> tuple[float, float, float]:
    """Return the megabits that arrive, and the shortest and the longest time in seconds that they may have taken."""
    before_s, before, began_s = time.monotonic(), received(far), time.monotonic()
    time.sleep(seconds)
    ended_s, after, after_s = time.monotonic(), received(far), time.monotonic()
    return (after - before) * 8 / 1e6, ended_s - began_s, after_s - before_s


@pytest.mark.parametrize("mbps", [10.0, 100.0, 300.0])
def test_a_job_sends_at_its_rate(tmp_path: Path, mbps: float) -> None:
    """No window has more than the rate and one bucket, which is 1 % of a second's; three of many have 0.95 of the rate.

    A busy machine makes the sender slow, or stops everything: such windows show less, and say nothing about HTB.
    """
    with pair() as (job, outside):
        share = share_of(tmp_path, {"job": ("batch", job.pid)})
        share.set(Setting(running=True, mbps=mbps))
        within = 0
        with flood(job, "198.18.0.2"):
            for _ in range(100):
                megabits, shortest_s, longest_s = measured(outside, 0.2)
                assert megabits <= 1.005 * mbps * (longest_s + traffic_control.BURST_S) + FRAME * 8 / 1e6
                within += megabits >= 0.95 * mbps * shortest_s
                if within == 3:
                    break
        assert within == 3
        share.restore()


def debt_s(held: Holder) -> float:
    """Return how long the class of a job's interface has to wait before it may send; negative: what it has saved."""

    def read(netlink: IPRoute) -> float:
        (index,) = netlink.link_lookup(ifname="eth0")
        (message,) = netlink.get_classes(index=index)
        return -float(message.get_attr("TCA_STATS2").get_attr("TCA_STATS_APP")["ctokens"]) * traffic_control.TICK_S

    return in_namespace(held.path, read)


def test_a_job_that_was_slow_is_not_in_debt_for_long(tmp_path: Path) -> None:
    """At 64 kbit/s one packet of 64 KiB means 8 s of waiting, which a higher rate would not end by itself."""
    with pair() as (job, outside), outside.socket(socket.SOCK_STREAM) as listening:
        share = share_of(tmp_path, {"job": ("batch", job.pid)})
        listening.bind(("198.18.0.2", 0))
        listening.listen()
        for _ in range(20):  # a machine that stops for seconds pays the debt meanwhile
            share.set(Setting(running=False))
            with job.socket(socket.SOCK_STREAM) as sending:
                sending.connect(listening.getsockname())
                sending.setblocking(False)
                sending.send(bytes(10 * 1448))  # as many segments as TCP sends at once
                listening.accept()[0].close()
                in_debt_s = debt_s(job)
                share.set(Setting(running=True, mbps=100))
            if in_debt_s > 2 * traffic_control.SETTLES_S:
                break
        assert in_debt_s > 2 * traffic_control.SETTLES_S
        assert debt_s(job) < traffic_control.SETTLES_S
        assert buckets(job) == {OWN: Bucket(OWN, 100_000_000, 100_000_000)}
        share.restore()


def test_running_jobs_share_evenly_and_frozen_ones_get_next_to_nothing(tmp_path: Path) -> None:
    with pair() as (first, second), holder() as third, holder() as idle:
        in_namespace(third.path, lambda netlink: connect(netlink, idle))
        jobs = {"a": ("batch", first.pid), "b": ("batch", second.pid), "c": ("video", third.pid)}
        share = share_of(tmp_path, jobs)
        changes = share.set(Setting(running=True, mbps=90))
        assert [(change.old, change.new) for change in changes] == [("no limit", "30 Mb/s")] * 3
        assert share.set(Setting(running=True, mbps=90)) == []
        share.set(Setting(running=True, mbps=90, paused=frozenset({"video"})))
        assert [buckets(held)[OWN].rate_bps for held in (first, second, third)] == [45_000_000, 45_000_000, LEAST_BPS]
        share.set(Setting(running=True, mbps=0.01))
        assert {buckets(held)[OWN].rate_bps for held in (first, second, third)} == {LEAST_BPS}
        assert qdiscs(idle) == KERNELS_CHOICE
        share.restore()


def test_restore_leaves_interfaces_as_they_were(tmp_path: Path) -> None:
    with pair() as (job, outside):
        before = qdiscs(job), qdiscs(outside)
        share = share_of(tmp_path, {"job": ("batch", job.pid)})
        share.set(Setting(running=True, mbps=10))
        assert qdiscs(job)[0] == ("htb", HANDLE, traffic_control.ROOT)
        share.restore()
        assert (qdiscs(job), qdiscs(outside)) == before == (KERNELS_CHOICE, KERNELS_CHOICE)
        share.restore()  # nothing left to do


def test_a_qdisc_of_somebody_else_stays(tmp_path: Path) -> None:
    with pair() as (job, _):
        theirs = {"rate": "1mbit", "latency": "10ms", "burst": 10_000}

        def set_theirs(netlink: IPRoute) -> None:
            netlink.tc("add", "tbf", netlink.link_lookup(ifname="eth0")[0], 0x50000, **theirs)

        in_namespace(job.path, set_theirs)
        share = share_of(tmp_path, {"job": ("batch", job.pid)})
        with pytest.raises(KnobRefused, match=r"tbf 5:"):
            share.set(Setting(running=True, mbps=10))
        share.restore()
        assert qdiscs(job)[0][:2] == ("tbf", 0x50000)


def test_the_network_of_lc_stays(tmp_path: Path) -> None:
    with pair() as (both, _):
        share = share_of(tmp_path, {"job": ("batch", both.pid)}, lc={"service": both.pid})
        with pytest.raises(KnobRefused, match="LC"):
            share.set(Setting(running=True, mbps=10))
        assert qdiscs(both) == KERNELS_CHOICE


class Killing(Journal):
    """A journal during whose first record processes are killed."""

    victims: tuple[Holder, ...] = ()

    def record(self, kind: str, knob: str, **old: object) -> None:
        super().record(kind, knob, **old)
        for victim in self.victims:
            victim.end()


def test_a_namespace_that_vanishes_is_no_error(tmp_path: Path) -> None:
    with pair() as (first, second), pair() as (third, _):
        jobs = {name: ("batch", held.pid) for name, held in (("a", first), ("b", second), ("c", third))}
        journal = Killing(tmp_path / "journal", "this boot", undo_of_network())
        journal.victims = (first, second)
        share = NetworkShare(dict, lambda: jobs, journal, link_mbps=1000)
        share.set(Setting(running=True, mbps=30))
        assert buckets(third)[OWN].rate_bps == 10_000_000
        share.set(Setting(running=True, mbps=30))
        assert buckets(third)[OWN].rate_bps == 30_000_000
        assert journal.restore() == []
        assert qdiscs(third) == KERNELS_CHOICE


KILLED = """
import sys, time
from pathlib import Path
from framework.model.guard import Setting
from tests.network.test_network_share import share_of
share_of(Path(sys.argv[1]), {"job": ("batch", int(sys.argv[2]))}).set(Setting(running=True, mbps=10))
print("set", flush=True)
time.sleep(600)
"""


def test_after_a_kill_the_journal_gives_the_interface_back(tmp_path: Path) -> None:
    with pair() as (job, _):
        command = [sys.executable, "-c", KILLED, str(tmp_path), str(job.pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as guard:
            assert guard.stdout is not None
            assert guard.stdout.readline() == b"set\n"
            guard.send_signal(signal.SIGKILL)
        assert qdiscs(job)[0][:2] == ("htb", HANDLE)
        again = journal_in(tmp_path)
        assert [entry["knob"] for entry in again.entries()] == [f"{job.name} eth0"]
        assert again.restore() == []
        assert qdiscs(job) == KERNELS_CHOICE
        assert journal_in(tmp_path).entries() == []


def test_the_journal_finds_a_namespace_by_any_of_its_processes(tmp_path: Path) -> None:
    with pair() as (job, _):
        share_of(tmp_path, {"job": ("batch", job.pid)}).set(Setting(running=True, mbps=10))
        other = in_namespace(job.path, lambda _: subprocess.Popen(["sleep", "600"]))
        try:
            kept = Holder(other)
            job.end()
            assert journal_in(tmp_path).restore() == []
            assert qdiscs(kept) == KERNELS_CHOICE
        finally:
            other.kill()
            other.communicate()


# ---------------------------------------------------------------------- jobs in the host's network


def sent_by_class() -> dict[int, int]:
    """Return the packets that each class of our eth0 has sent."""

    def read(netlink: IPRoute) -> dict[int, int]:
        (index,) = netlink.link_lookup(ifname="eth0")
        return {
            message["handle"] & 0xFFFF: message.get_attr("TCA_STATS2").get_attr("TCA_STATS_BASIC")["packets"]
            for message in netlink.get_classes(index=index)
            if message.get_attr("TCA_KIND") == "htb"
        }

    return in_namespace(None, read)


SENDER = """
import socket, sys
sending = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print("ready", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        sending.sendto(bytes(100), ("198.18.0.2", 9))
    print("sent", flush=True)
"""


class Sender:
    """A process in a control group and in our network namespace, which sends packets when told."""

    def __init__(self, group: Path) -> None:
        # It enters the group before it makes its socket: a socket is of the group in which it was made.
        enter = f"import os; open({str(group / 'cgroup.procs')!r}, 'w').write(str(os.getpid()))\n"
        command = [sys.executable, "-c", enter + SENDER]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer("ready\n")

    def send(self, packets: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{packets}\n")
        self.process.stdin.flush()
        self._answer("sent\n")

    def _answer(self, expected: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == expected

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def packets_sent(by: Sender, number: int, class_number: int) -> int:
    """Return the packets of a class while somebody sends; waits until all have left."""
    before = sent_by_class()
    by.send(number)
    for _ in range(1000):
        now = sent_by_class()
        if sum(now.get(leaf, 0) - before.get(leaf, 0) for leaf in (REST, BE)) >= number:
            break
        time.sleep(0.01)
    return now[class_number] - before[class_number]


def test_the_priority_chooses_the_class(tmp_path: Path) -> None:
    def scenario() -> None:
        with holder() as outside, control_groups("lc", "be") as (lc_group, be_group):
            with IPRoute() as netlink:
                connect(netlink, outside)
            before = qdiscs(None)
            with Sender(lc_group) as lc, Sender(be_group) as be:
                jobs = {"job": ("batch", be.process.pid)}
                share = share_of(tmp_path, jobs, {"service": lc.process.pid}, interface="eth0")
                share.set(Setting(running=True, mbps=100))
                found = buckets(None)
                assert (found[REST].ceil_bps, found[REST].prio) == (1_000_000_000, 0)
                assert (found[BE].ceil_bps, found[BE].prio) == (100_000_000, 1)
                assert packets_sent(be, 50, BE) == 50
                assert packets_sent(lc, 40, REST) >= 40  # the kernel sends packets of its own (ARP, IPv6)
                share.set(Setting(running=True, mbps=20))
                assert buckets(None)[BE].ceil_bps == 20_000_000
                jobs.clear()
                share.set(Setting(running=True, mbps=20))  # no job has the host's network any more
                assert qdiscs(None) == before
                jobs["job"] = ("batch", be.process.pid)
                share.set(Setting(running=True, mbps=20))
                assert packets_sent(be, 50, BE) == 50
                share.restore()
                assert qdiscs(None) == before

    in_new_namespace(scenario)


def test_a_job_in_lcs_group_is_not_limited_in_the_hosts_network(tmp_path: Path) -> None:
    def scenario() -> None:
        with holder() as outside, control_groups("engine") as (group,), IPRoute() as netlink:
            connect(netlink, outside)
            with Sender(group) as lc, Sender(group) as be:
                jobs = {"job": ("batch", be.process.pid)}
                share = share_of(tmp_path, jobs, {"service": lc.process.pid}, interface="eth0")
                with pytest.raises(KnobRefused, match=r"job: .*cannot be limited"):
                    share.set(Setting(running=True, mbps=100))
                assert packets_sent(lc, 40, BE) == 0
                share.restore()

    in_new_namespace(scenario)


def test_a_container_that_is_no_job_any_more_is_let_go(tmp_path: Path) -> None:
    with pair() as (job, _):
        jobs = {"job": ("batch", job.pid)}
        share = share_of(tmp_path, jobs)
        share.set(Setting(running=True, mbps=10))
        jobs.clear()
        share.set(Setting(running=True, mbps=10))
        assert qdiscs(job) == KERNELS_CHOICE


def test_whose_qdisc_is_in_the_way_on_the_host(tmp_path: Path) -> None:
    def scenario() -> str:
        with holder() as outside, IPRoute() as netlink:
            connect(netlink, outside)
            share = share_of(tmp_path, {}, interface="eth0")
            share.host_network = True
            assert share.missing() == ""
            netlink.tc("add", "htb", netlink.link_lookup(ifname="eth0")[0], 0x30000, default=1)
            return share.missing()

    assert "htb 3:" in in_new_namespace(scenario)


def test_a_link_of_unknown_speed_is_not_divided(tmp_path: Path) -> None:
    assert "not known" in NetworkShare(dict, dict, journal_in(tmp_path), link_mbps=0).missing()
