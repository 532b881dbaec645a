"""perf(1) during a load, played by a program that behaves like it: it counts until it is interrupted."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from framework.testbeds.host.perf import TOPDOWN_GROUP, Perf, cgroup_of

PLAYED = """#!/usr/bin/env python3
import json, pathlib, signal, sys, time
here = pathlib.Path(__file__)
told = json.loads(here.with_suffix(".json").read_text())
given = dict(zip(sys.argv, sys.argv[1:]))
if given["-e"] in told["unknown"]:
    sys.exit("event syntax error: " + given["-e"])

def write(*_):
    cgroup = given.get("--for-each-cgroup", "")
    lines = [f"{n};;{event};{cgroup};1000;100.00;;" for event, n in told["counts"].items() if event in given["-e"]]
    with open(given["-o"], "w") if "-o" in given else sys.stderr as file:
        print("\\n".join(lines), file=file)
    sys.exit(0)

if "-o" not in given:
    write()
signal.signal(signal.SIGINT, write)
here.with_suffix(".counting").touch()
time.sleep(600)
"""


def played(directory: Path, counts: Mapping[str, object], unknown: tuple[str, ...] = ()) -> Perf:
    program = directory / "perf"
    program.write_text(PLAYED)
    program.with_suffix(".json").write_text(json.dumps({"counts": counts, "unknown": unknown}))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    proc = directory / "proc" / "7"
    proc.mkdir(parents=True)
    (proc / "cgroup").write_text("3:cpuacct,cpu:/docker/other\n4:perf_event:/docker/abc\n")
    return Perf(str(program), directory / "proc")


def test_what_is_counted_while_something_goes_on(tmp_path: Path) -> None:
    counts = {"cycles": 2_000, "instructions": 1_000, "L1-dcache-load-misses": 5}
    perf = played(tmp_path, counts, unknown=("l2_rqsts.miss", TOPDOWN_GROUP))
    assert perf.missing() == ""
    with perf.counted(7) as told:
        deadline = time.monotonic() + 60
        while not (tmp_path / "perf.counting").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
    assert told() == {"ipc": 0.5, "mpki.L1d": 5.0}


def test_a_processor_without_counters_is_told_and_nothing_is_run(tmp_path: Path) -> None:
    perf = played(tmp_path, {"cycles": "<not supported>"})
    assert perf.missing() == "cycles are not supported by this processor, as on most virtual machines"
    with perf.counted(7) as told:
        pass
    assert told() == {}


def test_without_the_program_it_is_told_how_to_get_it() -> None:
    assert "apt-get install linux-perf" in Perf("perf-that-is-not-there").missing()


def test_a_program_that_may_not_count_says_why(tmp_path: Path) -> None:
    assert "may not count here: event syntax error: cycles" in played(tmp_path, {}, unknown=("cycles",)).missing()


def test_a_program_that_writes_something_else_is_not_used(tmp_path: Path) -> None:
    perf = played(tmp_path, {"cycles": "many"})
    assert "writes something else" in perf.missing()


@pytest.mark.parametrize(
    ("text", "cgroup"),
    [
        ("4:perf_event:/docker/abc\n1:name=systemd:/x\n", "docker/abc"),
        ("0::/system.slice/docker-abc.scope\n", "system.slice/docker-abc.scope"),
        ("0::/\n", None),
        ("", None),
    ],
)
def test_the_cgroup_as_perf_wants_it(tmp_path: Path, text: str, cgroup: str | None) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(text)
    assert cgroup_of(tmp_path, 7) == cgroup


def test_a_process_that_is_gone_has_none() -> None:
    assert cgroup_of(Path("/proc"), 0) is None
    assert cgroup_of(Path("/proc"), 2**22 + os.getpid()) is None
