"""Counters of energy read from the kernel's files: recorded trees of cgroup v1 and v2, and hostile ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import KnobRefused
from framework.model import Container, Running
from framework.model.energy import CpuTimes, IoBytes, PowerCurve
from framework.testbeds.docker.energy_meter import DockerEnergyMeter
from framework.testbeds.host.control_work import control_s
from framework.testbeds.host.energy_counters import EnergyFiles
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testing.pretend_energy import PretendSource

ID = "4f5a8c2b9d1e" + "0" * 52
V1 = {
    "proc/self/mounts": (
        "cgroup /cg/cpuset cgroup rw,cpuset 0 0\ncgroup /cg/cpuacct cgroup rw,cpuacct 0 0\n"
        "cgroup /cg/blkio cgroup rw,blkio 0 0\n"
    ),
    "proc/77/cgroup": f"3:cpuset:/docker/{ID}\n2:cpuacct:/docker/{ID}\n1:blkio:/docker/{ID}\n",
    f"cg/cpuset/docker/{ID}/cgroup.procs": "77\n78\n",
    f"cg/cpuacct/docker/{ID}/cpuacct.usage_user": "1500000000\n",
    f"cg/cpuacct/docker/{ID}/cpuacct.usage_sys": "500000000\n",
}
V2 = {
    "proc/self/mounts": "cgroup2 /cg cgroup2 rw 0 0\n",
    "cg/cgroup.controllers": "cpuset cpu io memory\n",
    "proc/77/cgroup": f"0::/system.slice/docker-{ID}.scope\n",
    f"cg/system.slice/docker-{ID}.scope/cgroup.procs": "77\n78\n",
    f"cg/system.slice/docker-{ID}.scope/cpu.stat": "usage_usec 2000000\nuser_usec 1500000\nsystem_usec 500000\n",
}
MACHINE = {
    "proc/stat": "cpu  1000 200 300 5000 400 10 20 30 150 50\ncpu0 1 2 3 4\ncpu1 1 2 3 4\nintr 5\n",
    "proc/diskstats": (
        "   8       0 sda 100 0 2048 10 50 0 4096 20 0 30 30\n   8       1 sda1 90 0 1000 10 50 0 4000 20 0 30 30\n"
        " 253       0 dm-0 90 0 1000 10 50 0 4000 20 0 30 30\n   7       0 loop0 9 0 900 0 0 0 0 0 0 0 0\n"
    ),
    "proc/net/dev": (
        "Inter-|   Receive |  Transmit\n face |bytes packets|bytes packets\n"
        "    lo: 9000 1 0 0 0 0 0 0 9000 1 0 0 0 0 0 0\n  eth0: 5000 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0\n"
        "docker0: 80 1 0 0 0 0 0 0 90 1 0 0 0 0 0 0\n"
    ),
    "proc/cpuinfo": "processor : 0\ncpu MHz\t\t: 2000.0\nprocessor : 1\ncpu MHz\t\t: 3000.0\n",
    "proc/77/io": (
        "rchar: 1000\nwchar: 2000\nsyscr: 1\nsyscw: 1\nread_bytes: 512\nwrite_bytes: 1024\ncancelled_write_bytes: 0\n"
    ),
    "proc/78/io": "rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 0\n",
    "sys/class/net/eth0/device/vendor": "0x1\n",
    "sys/block/sda/size": "4096\n",
    "sys/block/sda/dev": "8:0\n",
    "sys/block/sda/queue/rotational": "0\n",
    "sys/block/dm-0/size": "4096\n",
    "sys/block/dm-0/dev": "253:0\n",
    "sys/block/dm-0/slaves/sda/x": "",
    "sys/block/loop0/size": "4096\n",
    "sys/block/loop0/dev": "7:0\n",
}


def tree(root: Path, *parts: dict[str, str]) -> EnergyFiles:
    for files in parts:
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return EnergyFiles(HostKernelFiles(root), hertz=100.0)


def container(pid: int = 77, identity: str = ID, *others: Container) -> Container:
    return Container("a", identity, "a-1", "image", "sha256:0", "10.0.0.2", pid, "now", others=others)


def running(*containers: Container) -> Running:
    return Running(None, "network", {c.service: c for c in containers})  # type: ignore[arg-type]  # no deployment


def test_the_states_of_the_machine_add_up(tmp_path: Path) -> None:
    cpu, cpus = tree(tmp_path, V2, MACHINE).cpu()
    assert cpus == 2
    assert cpu == CpuTimes(user=10.0, system=3.0, irq=0.1, softirq=0.2, steal=0.3, guest=2.0, idle=50.0, iowait=4.0), (
        "guest time is taken out of user"
    )
    assert cpu.total == pytest.approx((1000 + 200 + 300 + 5000 + 400 + 10 + 20 + 30) / 100.0)


def test_older_kernels_have_fewer_states(tmp_path: Path) -> None:
    cpu, cpus = tree(tmp_path, V2, MACHINE, {"proc/stat": "cpu  100 0 50 200 10\ncpu0 1\n"}).cpu()
    assert (cpu, cpus) == (CpuTimes(user=1.0, system=0.5, idle=2.0, iowait=0.1), 1)


def test_disks_count_once_and_without_what_lies_on_them(tmp_path: Path) -> None:
    assert tree(tmp_path, V2, MACHINE).device_io() == IoBytes(2048 * 512.0, 4096 * 512.0)


def test_a_machine_without_disks_counts_none(tmp_path: Path) -> None:
    files = tree(tmp_path, V2, {name: text for name, text in MACHINE.items() if "sys/block" not in name})
    assert files.device_io() is None


def test_the_network_is_that_of_devices(tmp_path: Path) -> None:
    assert tree(tmp_path, V2, MACHINE).network() == (5000.0, 700.0)


@pytest.mark.parametrize("version", [V1, V2], ids=["v1", "v2"])
def test_a_container_has_its_processes(tmp_path: Path, version: dict[str, str]) -> None:
    curve = PowerCurve(50.0, 100.0)
    meter = DockerEnergyMeter(
        PretendSource(curve), tree(tmp_path, version, MACHINE), curve, now=iter([1.0, 3.0]).__next__
    )
    first = meter.read(running(container()))
    assert first.services["a"].user_s == 1.5
    assert first.services["a"].system_s == 0.5
    assert first.services["a"].io == {
        "application": IoBytes(1001.0, 2002.0), "block": IoBytes(4608.0, 1024.0),
    }  # fmt: skip
    assert set(first.io) == {"device"}
    (tmp_path / "proc/stat").write_text("cpu  1100 200 300 5100 400 10 20 30 150 50\ncpu0 1\ncpu1 1\n")
    second = meter.read(None)
    assert not second.services
    assert second.joules["machine"].value == pytest.approx(2.0 * 75.0), "one of two CPU seconds was busy"
    assert second.losses == 0


def test_bytes_that_were_removed_before_they_were_written_do_not_count(tmp_path: Path) -> None:
    text = "rchar: 0\nwchar: 9000\nread_bytes: 0\nwrite_bytes: 9000\ncancelled_write_bytes: 8000\n"
    energy = tree(tmp_path, V2, MACHINE, {"proc/77/io": text, "proc/78/io": text})
    counted = energy.group_counters(energy.cgroups.of(77))
    assert counted.io["block"] == IoBytes(0.0, 2000.0)


def test_replicas_add_up(tmp_path: Path) -> None:
    curve = PowerCurve(50.0, 100.0)
    files = tree(tmp_path, V2, MACHINE)
    read = DockerEnergyMeter(PretendSource(curve), files).read(running(container(77, ID, container())))
    assert read.services["a"].user_s == 3.0
    assert read.services["a"].io["block"] == IoBytes(9216.0, 2048.0)


def test_a_container_of_another_machine_is_refused(tmp_path: Path) -> None:
    meter = DockerEnergyMeter(PretendSource(PowerCurve(50.0, 100.0)), tree(tmp_path, V2, MACHINE))
    with pytest.raises(KnobRefused, match="not that of a-1"):
        meter.read(running(container(77, "f" * 64)))
    with pytest.raises(KnobRefused):
        meter.read(running(container(99)))


def test_older_kernels_count_ticks(tmp_path: Path) -> None:
    files = {name: text for name, text in V1.items() if "usage" not in name}
    files[f"cg/cpuacct/docker/{ID}/cpuacct.stat"] = "user 150\nsystem 50\n"
    energy = tree(tmp_path, files, MACHINE)
    counted = energy.group_counters(energy.cgroups.of(77))
    assert (counted.user_s, counted.system_s) == (1.5, 0.5)


def test_io_that_may_not_be_read_is_missing_and_not_zero(tmp_path: Path) -> None:
    energy = tree(tmp_path, V2, MACHINE, {"proc/77/io": "rchar: many\n"})
    assert energy.group_counters(energy.cgroups.of(77)).io == {}


@given(
    st.sampled_from(["proc/stat", "proc/diskstats", "proc/net/dev", "proc/77/io", "proc/cpuinfo"]), st.text(max_size=80)
)
def test_hostile_files_give_a_reason_or_no_negative_number(
    tmp_path_factory: pytest.TempPathFactory, name: str, text: str
) -> None:
    root = tmp_path_factory.mktemp("tree")
    energy = tree(root, V2, MACHINE)
    (root / name).write_text(text, encoding="utf-8", errors="replace")
    meter = DockerEnergyMeter(PretendSource(PowerCurve(50.0, 100.0)), energy)
    try:
        read = meter.read(running(container()))
    except KnobRefused:
        return
    assert min(read.cpu.total, read.cpu.busy, *(part.operations for part in read.io.values())) >= 0.0
    for counted in read.services.values():
        assert min(counted.cpu_s, *(part.operations for part in counted.io.values()), 0.0) >= 0.0


def test_a_slower_disk_is_a_limit_of_the_container_s_group(tmp_path: Path) -> None:
    knobs = {f"cg/blkio/docker/{ID}/blkio.throttle.{way}_bps_device": "" for way in ("read", "write")}
    root = {f"cg/blkio/blkio.throttle.{way}_bps_device": "" for way in ("read", "write")}
    meter = DockerEnergyMeter(PretendSource(PowerCurve(50.0, 100.0)), tree(tmp_path, V1, MACHINE, knobs, root))
    meter.throttle(running(container()), 100.0)
    for name in knobs:
        assert (tmp_path / name).read_text() == "8:0 100000000", "of the disk, not of what lies on it"
    bare = DockerEnergyMeter(PretendSource(PowerCurve(50.0, 100.0)), tree(tmp_path / "bare", V1, MACHINE))
    with pytest.raises(KnobRefused, match="does not limit"):
        bare.throttle(running(container()), 100.0)


def test_the_control_work_takes_cpu_time() -> None:
    assert 0.0 < control_s() < 60.0
