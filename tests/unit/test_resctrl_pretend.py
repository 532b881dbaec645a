"""The pretended resctrl against what kernels do: their documentation's examples, their texts, trees of real machines.

Recorded trees: goresctrl (test/data) and the examples of Documentation/filesystems/resctrl.rst.
"""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import KnobRefused
from framework.guard.plant.kinds import LC_KINDS, Machine
from framework.testing.pretend_resctrl import AMD, HASWELL, INTEL, MACHINES, CacheMachine, PlantTraffic, PretendResctrl
from framework.testing.pretend_resctrl.machines import PretendBandwidth, PretendCache

ROOT = "/sys/fs/resctrl"
USED = "0=XXSSSSSSSSSSSSSSSSSS;1=XXSSSSSSSSSSSSSSSSSS\n"


def refused(files: PretendResctrl, path: str, text: str, number: int) -> str:
    """Write what the kernel refuses with this errno; return last_cmd_status."""
    with pytest.raises(KnobRefused) as error:
        files.write(f"{ROOT}/{path}", text)
    assert error.value.reason == os.strerror(number)
    return files.read(f"{ROOT}/info/last_cmd_status")


@pytest.mark.parametrize(
    ("machine", "schemata", "bit_usage"),
    [
        ("intel", "    MB:0=  100;1=  100\n    L3:0=fffff;1=fffff\n", USED),
        ("intel-new-kernel", "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n", USED),
        ("intel-cdp", "    MB:0=  100;1=  100\nL3DATA:0=fffff;1=fffff\nL3CODE:0=fffff;1=fffff\n", ""),
        ("intel-gapped", "    MB:0=  100;2=  100\n    L3:0=fffff;2=fffff\n", ""),
        ("intel-mbps", "    MB:0=4294967295;1=4294967295\n    L3:0=fffff;1=fffff\n", ""),
        ("haswell", "L3:0=fffff\n", "0=SSSSSSSSSSSSSSSSSSSS\n"),
        ("amd", "    MB:0=2048;2=2048\n    L3:0=ffff;2=ffff\n", "0=SSSSSSSSSSSSSSSS;2=SSSSSSSSSSSSSSSS\n"),
    ],
)  # fmt: skip
def test_schemata_begin_as_on_real_machines(machine: str, schemata: str, bit_usage: str) -> None:
    files = PretendResctrl(MACHINES[machine])
    assert files.read(f"{ROOT}/schemata") == schemata
    if bit_usage:
        assert files.read(f"{ROOT}/info/L3/bit_usage") == bit_usage


def test_the_files_are_those_of_a_machine() -> None:
    files = PretendResctrl(INTEL)
    assert files.entries(ROOT) == [
        "cpus", "cpus_list", "info", "mode", "mon_data", "mon_groups", "schemata", "size", "tasks",
    ]  # fmt: skip
    assert files.entries(f"{ROOT}/info") == ["L3", "L3_MON", "MB", "last_cmd_status"]
    assert files.entries(f"{ROOT}/mon_data") == ["mon_L3_00", "mon_L3_01"]
    assert files.entries(f"{ROOT}/mon_data/mon_L3_01") == ["llc_occupancy", "mbm_local_bytes", "mbm_total_bytes"]
    assert files.entries(f"{ROOT}/mon_groups") == []
    assert files.exists(f"{ROOT}/mon_groups")
    assert files.read(f"{ROOT}/info/L3_MON/mon_features").split() == [
        "llc_occupancy", "mbm_total_bytes", "mbm_local_bytes",
    ]  # fmt: skip
    shown = {
        "L3/cbm_mask": "fffff", "L3/min_cbm_bits": "1", "L3/num_closids": "16", "L3/shareable_bits": "c0000",
        "MB/min_bandwidth": "10", "MB/bandwidth_gran": "10", "MB/delay_linear": "1", "MB/num_closids": "8",
        "L3_MON/num_rmids": "64", "last_cmd_status": "ok",
    }  # fmt: skip
    assert {name: files.read(f"{ROOT}/info/{name}") for name in shown} == {
        name: f"{text}\n" for name, text in shown.items()
    }


def test_code_and_data_apart_have_half_the_classes() -> None:
    files = PretendResctrl(MACHINES["intel-cdp"])
    assert files.entries(f"{ROOT}/info") == ["L3CODE", "L3DATA", "L3_MON", "MB", "last_cmd_status"]
    assert files.read(f"{ROOT}/info/L3CODE/num_closids") == "8\n"
    assert "cdp" in files.read("/proc/mounts")


def test_a_write_changes_only_what_it_names() -> None:
    """The documentation's example, four cache ids with data and code apart."""
    cpus = {number: frozenset({number}) for number in range(4)}
    files = PretendResctrl(CacheMachine(cpus, PretendCache(20, 40 << 20, split=True)))
    files.write(f"{ROOT}/schemata", "L3DATA:2=3c0;\n")
    assert files.read(f"{ROOT}/schemata") == (
        "L3DATA:0=fffff;1=fffff;2=3c0;3=fffff\nL3CODE:0=fffff;1=fffff;2=fffff;3=fffff\n"
    )


def test_limits_of_amd_are_absolute() -> None:
    """The documentation's example: 2 GB/s for one cache id."""
    files = PretendResctrl(replace(AMD, padded=True))
    files.write(f"{ROOT}/schemata", "MB:2=16\n")
    assert files.read(f"{ROOT}/schemata") == "    MB:0=2048;2=  16\n    L3:0=ffff;2=ffff\n"
    files.write(f"{ROOT}/schemata", "    L3:0=f00f;2=0000\n")
    assert files.read(f"{ROOT}/schemata").endswith("L3:0=f00f;2=0000\n")


def test_percent_are_rounded_up_to_a_step() -> None:
    files = PretendResctrl(INTEL)
    files.write(f"{ROOT}/schemata", "MB:0=21;1=10\n")
    assert files.read(f"{ROOT}/schemata").startswith("    MB:0=   30;1=   10\n")


@pytest.mark.parametrize(
    ("machine", "text", "status"),
    [
        ("intel", "L3:0=f7\n", "The mask f7 has non-consecutive 1-bits\n"),
        ("intel", "L3:0=0\n", "Mask out of range\n"),
        ("intel", "L3:0=1fffff\n", "Mask out of range\n"),
        ("intel", "L3:0=xyz\n", "Non-hex character in the mask xyz\n"),
        ("haswell", "L3:0=1\n", "Need at least 2 bits in the mask\n"),
        ("intel", "L3:5=f\n", "ok\n"),  # the kernel says nothing of an unknown cache id
        ("intel-gapped", "L3:1=f\n", "ok\n"),
        ("intel", "L3:0=f;0=f\n", "Duplicate domain 0\n"),
        ("intel", "L3:f\n", "Missing '=' or non-numeric domain\n"),
        ("intel", "L3: 0=f\n", "Missing '=' or non-numeric domain\n"),
        ("intel", "L3\n", "Missing ':'\n"),
        ("intel", "L3:\n", "Missing 'L3' value\n"),
        ("intel", "L2:0=f\n", "Unknown or unsupported resource name 'L2'\n"),
        ("intel-cdp", "L3:0=f\n", "Unknown or unsupported resource name 'L3'\n"),
        ("haswell", "MB:0=50\n", "Unknown or unsupported resource name 'MB'\n"),
        ("intel", "MB:0=5\n", "MB value 5 out of range [10,100]\n"),
        ("intel", "MB:0=fast\n", "Invalid MB value fast\n"),
        ("amd", "MB:0=2049\n", "MB value 2049 out of range [0,2048]\n"),
        ("intel", "L3:0=f", "ok\n"),  # no line end: refused before anything is looked at
    ],
)
def test_wrong_values_change_nothing(machine: str, text: str, status: str) -> None:
    files = PretendResctrl(MACHINES[machine])
    before = files.tree()
    assert refused(files, "schemata", text, errno.EINVAL) == status
    assert files.tree() == before
    files.write(f"{ROOT}/schemata", "L3DATA:0=f\n" if "cdp" in machine else "L3:0=f\n")
    assert files.read(f"{ROOT}/info/last_cmd_status") == "ok\n"


def test_one_wrong_line_refuses_the_whole_write() -> None:
    files = PretendResctrl(INTEL)
    before = files.tree()
    refused(files, "schemata", "L3:0=ff;1=ff\nMB:0=50\nL3:1=5\n", errno.EINVAL)
    assert files.tree() == before


def test_limits_in_megabytes_count_before_a_wrong_line() -> None:
    """With mba_MBps the kernel's software controller gets its values while the text is read."""
    files = PretendResctrl(MACHINES["intel-mbps"])
    refused(files, "schemata", "MB:0=500\nL3:0=5\n", errno.EINVAL)
    assert files.read(f"{ROOT}/schemata").startswith("    MB:0=  500;1=4294967295\n")
    assert "mba_MBps" in files.read("/proc/mounts")


@given(st.integers(0, 2**20 - 1), st.sampled_from(sorted(MACHINES)))
def test_masks_that_are_taken(mask: int, name: str) -> None:
    """Intel: 1-bits side by side, at least as many as it says; AMD: any."""
    machine = MACHINES[name]
    files, cache = PretendResctrl(machine), machine.cache
    assert cache is not None
    digits = f"{mask:b}"
    allowed = mask <= cache.mask and (cache.sparse or (mask > 0 and "0" not in digits.strip("0")))
    allowed = allowed and mask.bit_count() >= cache.least
    line, number = "L3CODE" if cache.split else "L3", machine.ids[-1]
    try:
        files.write(f"{ROOT}/schemata", f"{line}:{number}={mask:x}\n")
        taken = True
    except KnobRefused:
        taken = False
    assert taken == allowed


def test_no_more_groups_than_classes() -> None:
    files = PretendResctrl(HASWELL)
    for number in range(3):
        files.make(f"{ROOT}/group{number}")
    with pytest.raises(KnobRefused, match="No space left on device"):
        files.make(f"{ROOT}/group3")
    assert files.read(f"{ROOT}/info/last_cmd_status") == "Out of CLOSIDs\n"
    files.make(f"{ROOT}/group2")  # it exists
    files.remove(f"{ROOT}/group0")
    files.make(f"{ROOT}/group3")


def test_no_more_groups_than_counters() -> None:
    files = PretendResctrl(replace(INTEL, rmids=3))
    files.make(f"{ROOT}/group")
    files.make(f"{ROOT}/group/mon_groups/part")
    with pytest.raises(KnobRefused, match="No space left on device"):
        files.make(f"{ROOT}/mon_groups/part")
    assert files.read(f"{ROOT}/info/last_cmd_status") == "Out of RMIDs\n"
    files.set_count("group", 0, "mbm_total_bytes", 4096)
    files.remove(f"{ROOT}/group")
    files.make(f"{ROOT}/first")
    with pytest.raises(KnobRefused, match="resource busy"):  # the old counter's lines are still in the cache
        files.make(f"{ROOT}/second")
    files.advance(1.0)
    files.make(f"{ROOT}/second")


@pytest.mark.parametrize("path", ["group/below", "info/below", "mon_groups/part/mon_groups/below", "a/b/c"])
def test_groups_are_made_only_in_their_places(path: str) -> None:
    files = PretendResctrl(INTEL)
    files.make(f"{ROOT}/group")
    files.make(f"{ROOT}/mon_groups/part")
    with pytest.raises(KnobRefused):
        files.make(f"{ROOT}/{path}")


@pytest.mark.parametrize("path", ["", "/info", "/mon_groups", "/mon_data"])
def test_only_groups_are_removed(path: str) -> None:
    with pytest.raises(KnobRefused, match="not permitted"):
        PretendResctrl(INTEL).remove(f"{ROOT}{path}")


def test_tasks_move_and_forks_inherit() -> None:
    files = PretendResctrl(INTEL)
    files.start(10, threads=(11,))
    files.make(f"{ROOT}/group")
    files.write(f"{ROOT}/group/tasks", "10\n")
    files.start(20, of=10)
    files.start(30, of=11)
    assert files.read(f"{ROOT}/group/tasks") == "10\n20\n"
    assert files.read(f"{ROOT}/tasks") == "11\n30\n"
    assert refused(files, "group/tasks", "99\n", errno.ESRCH) == "No task 99\nError while processing task 99\n"
    assert refused(files, "group/tasks", "11,99\n", errno.ESRCH).startswith("No task 99")
    assert files.read(f"{ROOT}/group/tasks") == "10\n11\n20\n"
    assert refused(files, "group/tasks", "x\n", errno.EINVAL) == "Task list parsing error pid x\n"
    assert refused(files, "group/tasks", "-1\n", errno.EINVAL) == "Invalid pid -1\n"
    files.remove(f"{ROOT}/group")
    assert files.read(f"{ROOT}/tasks") == "10\n11\n20\n30\n"


def test_a_mon_group_counts_tasks_of_its_parent() -> None:
    files = PretendResctrl(INTEL)
    files.start(10)
    files.start(20)
    files.make(f"{ROOT}/group")
    files.make(f"{ROOT}/group/mon_groups/part")
    assert "different control group" in refused(files, "group/mon_groups/part/tasks", "10\n", errno.EINVAL)
    files.write(f"{ROOT}/group/tasks", "10\n")
    files.write(f"{ROOT}/group/mon_groups/part/tasks", "10\n")
    assert files.read(f"{ROOT}/group/tasks") == files.read(f"{ROOT}/group/mon_groups/part/tasks") == "10\n"
    assert not files.exists(f"{ROOT}/group/mon_groups/part/schemata")
    files.set_count("group", 0, "mbm_total_bytes", 100)
    files.set_count("group/mon_groups/part", 0, "mbm_total_bytes", 5)
    assert files.read(f"{ROOT}/group/mon_data/mon_L3_00/mbm_total_bytes") == "105\n"
    files.remove(f"{ROOT}/group/mon_groups/part")
    assert files.read(f"{ROOT}/group/tasks") == "10\n"


def test_cpus_belong_to_one_group() -> None:
    files = PretendResctrl(INTEL)
    assert (files.read(f"{ROOT}/cpus"), files.read(f"{ROOT}/cpus_list")) == ("ff\n", "0-7\n")
    files.make(f"{ROOT}/group")
    files.write(f"{ROOT}/group/cpus", "f0\n")
    assert files.read(f"{ROOT}/cpus_list") == "0-3\n"
    files.make(f"{ROOT}/group/mon_groups/part")
    files.write(f"{ROOT}/group/mon_groups/part/cpus_list", "4-5\n")
    assert "belong to parent" in refused(files, "group/mon_groups/part/cpus_list", "3\n", errno.EINVAL)
    assert refused(files, "group/cpus_list", "8\n", errno.EINVAL) == "Can only assign online CPUs\n"
    assert refused(files, "cpus_list", "0\n", errno.EINVAL) == "Can't drop CPUs from default group\n"
    assert refused(files, "cpus", "zz\n", errno.EINVAL) == "Bad CPU list/mask\n"
    files.remove(f"{ROOT}/group")
    assert files.read(f"{ROOT}/cpus_list") == "0-7\n"


def test_exclusive_groups_keep_others_out() -> None:
    files = PretendResctrl(INTEL)
    files.make(f"{ROOT}/mine")
    assert refused(files, "mine/mode", "exclusive\n", errno.EINVAL) == "Schemata overlaps\n"
    assert refused(files, "mine/mode", "locked\n", errno.EINVAL) == "Unknown or unsupported mode\n"
    files.write(f"{ROOT}/schemata", "L3:0=ffff0;1=ffff0\n")
    files.write(f"{ROOT}/mine/schemata", "L3:0=f;1=f\n")
    files.write(f"{ROOT}/mine/mode", "exclusive\n")
    assert refused(files, "schemata", "L3:0=fffff\n", errno.EINVAL) == "Overlaps with exclusive group\n"
    assert refused(files, "mine/schemata", "L3:0=1f\n", errno.EINVAL) == "Overlaps with other group\n"
    files.make(f"{ROOT}/next")
    assert files.read(f"{ROOT}/next/schemata").endswith("L3:0=ffff0;1=ffff0\n")
    assert files.read(f"{ROOT}/info/L3/bit_usage").startswith("0=XXSSSSSSSSSSSSSSEEEE;")


def test_sizes_mirror_the_schemata() -> None:
    files = PretendResctrl(INTEL)
    files.write(f"{ROOT}/schemata", "L3:1=3\n")
    assert files.read(f"{ROOT}/size") == f"    MB:0=100;1=100\n    L3:0={20 * 2097152};1={2 * 2097152}\n"


def test_what_cannot_be_written() -> None:
    files = PretendResctrl(INTEL)
    refused(files, "info/L3/cbm_mask", "f\n", errno.EACCES)
    refused(files, "size", "1\n", errno.EACCES)
    refused(files, "nothing", "1\n", errno.ENOENT)
    refused(files, "info/L3_MON/max_threshold_occupancy", "x\n", errno.EINVAL)
    files.write(f"{ROOT}/info/L3_MON/max_threshold_occupancy", "65536\n")
    assert files.read(f"{ROOT}/info/L3_MON/max_threshold_occupancy") == "65536\n"


def test_a_tree_that_nobody_mounted() -> None:
    files = PretendResctrl(INTEL, mounted=False)
    assert files.exists(ROOT)
    assert files.entries(ROOT) == []
    with pytest.raises(KnobRefused):
        files.make(f"{ROOT}/group")


def test_traffic_is_the_plants() -> None:
    """Less cache for BE is more traffic, a throttle less; before tasks are moved all of it is the default group's."""
    plant = PlantTraffic(Machine(), LC_KINDS["search"], 1000.0, 6, {"cache": 2.0})
    files = PretendResctrl(INTEL, plant)

    def gained(group: str) -> int:
        file = f"{ROOT}/{group}mon_data/mon_L3_00/mbm_total_bytes"
        before = int(files.read(file))
        files.advance(1.0)
        return int(files.read(file)) - before

    assert gained("") > 1e9
    files.start(10)
    files.start(20)
    for group, task in (("tailor-lc", 10), ("tailor-be", 20)):
        files.make(f"{ROOT}/{group}")
        files.write(f"{ROOT}/{group}/tasks", f"{task}\n")
    assert gained("") == 0
    files.write(f"{ROOT}/tailor-be/schemata", "L3:0=ff;1=ff\n")
    wide = gained("tailor-be/")
    files.write(f"{ROOT}/tailor-be/schemata", "L3:0=1;1=1\n")
    narrow = gained("tailor-be/")
    files.write(f"{ROOT}/tailor-be/schemata", "MB:0=10;1=10\n")
    throttled = gained("tailor-be/")
    assert throttled == pytest.approx(narrow / 10)
    assert wide < narrow
    assert files.read(f"{ROOT}/tailor-be/mon_data/mon_L3_00/llc_occupancy") == f"{2097152}\n"


@pytest.mark.parametrize(
    ("bandwidth", "limit", "passed"),
    [
        (PretendBandwidth(), 50, 0.5e9),
        (PretendBandwidth(0, 1, 2048, linear=False), 2048, 1e9),
        (PretendBandwidth(0, 1, 2048, linear=False), 2, 0.5e9),
        (PretendBandwidth(megabytes=True), 300, 2 * 300 * 2**20),
    ],
)
def test_limits_hold_back_traffic(bandwidth: PretendBandwidth, limit: int, passed: float) -> None:
    files = PretendResctrl(
        replace(INTEL, bandwidth=bandwidth), lambda shares: {path: share.passes(1e9) for path, share in shares.items()}
    )
    files.write(f"{ROOT}/schemata", f"MB:0={limit};1={limit}\n")
    files.advance(2.0)
    counts = [int(files.read(f"{ROOT}/mon_data/mon_L3_0{number}/mbm_total_bytes")) for number in (0, 1)]
    assert sum(counts) == pytest.approx(2 * passed)
