"""CPU counters from the files of both cgroup versions, as they look below /proc and /sys."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.testbeds.host.usage import counter_file, host_cpu, parse_counter, pressure

ID = "704d2547a659" + "0" * 52


def proc(tmp_path: Path, cgroup: str, mounts: str) -> Path:
    root = tmp_path / "proc"
    for directory in ("42", "self", "pressure"):
        (root / directory).mkdir(parents=True)
    (root / "42" / "cgroup").write_text(cgroup)
    (root / "self" / "mounts").write_text(mounts)
    return root


def test_cgroup_v1(tmp_path: Path) -> None:
    mounts = (
        f"cgroup {tmp_path}/cpu cgroup rw,cpu 0 0\ncgroup {tmp_path}/acct cgroup rw,relatime,cpuacct 0 0\n"
        f"cgroup2 {tmp_path}/unified cgroup2 rw 0 0\n"
    )
    root = proc(tmp_path, f"5:cpu:/docker/{ID}\n4:cpuacct:/docker/{ID}\n0::/\n", mounts)
    file = tmp_path / "acct" / "docker" / ID / "cpuacct.usage"
    file.parent.mkdir(parents=True)
    file.write_text("1500000000\n")
    assert counter_file(root, 42, ID) == file
    assert parse_counter(file.read_text()) == 1.5


def test_cgroup_v2(tmp_path: Path) -> None:
    path = f"system.slice/docker-{ID}.scope"
    root = proc(tmp_path, f"0::/{path}\n", f"cgroup2 {tmp_path}/cg cgroup2 rw,nsdelegate 0 0\n")
    file = tmp_path / "cg" / path / "cpu.stat"
    file.parent.mkdir(parents=True)
    file.write_text("usage_usec 2500000\nuser_usec 1\nsystem_usec 2\n")
    assert counter_file(root, 42, ID) == file
    assert parse_counter(file.read_text()) == 2.5


@pytest.mark.parametrize(("pid", "cgroup"), [(0, ""), (43, ""), (42, "0::/user.slice\n")])
def test_a_process_that_is_not_here_has_no_file(tmp_path: Path, pid: int, cgroup: str) -> None:
    """No process, another machine's number, or a process of this machine that is not the container."""
    root = proc(tmp_path, cgroup, f"cgroup2 {tmp_path}/cg cgroup2 rw 0 0\n")
    assert counter_file(root, pid, ID) is None


def test_host_counters(tmp_path: Path) -> None:
    root = proc(tmp_path, "", "")
    (root / "stat").write_text("cpu  100 20 30 4000 500 6 7 80 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    busy, stolen = host_cpu(root)
    assert (busy / stolen) == pytest.approx((100 + 20 + 30 + 6 + 7) / 80)
    assert pressure(root) is None, "a kernel without PSI"
    (root / "pressure" / "cpu").write_text(
        "some avg10=1.00 avg60=0.00 avg300=0.00 total=1250000\nfull avg10=0.0 total=9\n"
    )
    assert pressure(root) == 1.25


def test_this_machine_has_counters() -> None:
    busy, stolen = host_cpu()
    assert busy > 0
    assert stolen >= 0
