"""The actuator of the cache on every pretended machine."""

from __future__ import annotations

import errno
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.errors import KnobRefused
from framework.model.guard import NOTHING, Setting
from framework.ports.actuator import Actuator
from framework.testbeds.host.cache_ways import CacheWays
from framework.testbeds.host.resctrl import ROOT, BandwidthInfo, Resctrl
from framework.testing.pretend_resctrl import AMD, HASWELL, INTEL, MACHINES, CacheMachine, PretendResctrl
from framework.testing.pretend_resctrl.machines import PretendCache
from tests.guarded_cache import BE, LC, GuardedCache

NAMES = sorted(MACHINES)
SETTINGS = st.builds(
    Setting,
    running=st.booleans(),
    cores=st.just(2.0),
    ways=st.integers(0, 25),
    bandwidth=st.sampled_from([1.0, 0.75, 0.3, 0.01]),
)


def check_divided(guarded: GuardedCache, setting: Setting) -> None:
    """Check the masks against the setting: every cache id the same, disjoint, none empty, BE's as many as asked for."""
    cache = guarded.files.machine.cache
    assert cache is not None
    least = max(1, cache.least)
    (lc,), (be,) = guarded.masks(LC), guarded.masks(BE)
    if setting.running:
        assert lc & be == 0
        assert lc | be == cache.mask
        assert be.bit_count() == min(max(setting.ways, least), cache.bits - least)
    else:
        assert (lc, be) == (cache.mask, (1 << least) - 1)


@pytest.mark.parametrize("name", NAMES)
def test_ways_are_divided_and_given_back(name: str, tmp_path: Path) -> None:
    guarded = GuardedCache(MACHINES[name], tmp_path)
    actuator: Actuator = guarded.actuator()
    assert actuator.missing() == ""
    for setting in (NOTHING, Setting(True, 2, 3), Setting(True, 2, 8), Setting(True, 2, 5), NOTHING):
        changes = actuator.set(setting)
        assert changes
        check_divided(guarded, setting)
        assert actuator.set(setting) == []
    assert guarded.files.read(f"{LC}/tasks").split() == ["100", "101", "102", "110"]
    assert guarded.files.read(f"{BE}/tasks").split() == ["200", "201"]
    assert "900" in guarded.files.read(f"{ROOT}/tasks").split()
    actuator.restore()
    assert guarded.files.tree() == guarded.before
    assert not guarded.path.exists()


@settings(deadline=None, max_examples=40)
@given(name=st.sampled_from(NAMES), sequence=st.lists(SETTINGS, min_size=1, max_size=5))
def test_any_sequence_of_settings_is_given_back(name: str, sequence: list[Setting]) -> None:
    machine = MACHINES[name]
    with tempfile.TemporaryDirectory() as directory:
        guarded = GuardedCache(machine, Path(directory))
        actuator = guarded.actuator()
        together = list[tuple[set[int], set[int]]]()

        def watch(operation: str, path: str) -> str:
            if path in (f"{LC}/schemata", f"{BE}/schemata"):
                together.append((guarded.masks(LC), guarded.masks(BE)))
            return ""

        guarded.files.refuse = watch
        was_running = False
        for setting in sequence:
            together.clear()
            if setting.bandwidth < 1 and machine.bandwidth is None:
                with pytest.raises(KnobRefused, match="cannot throttle"):
                    actuator.set(setting)
            else:
                actuator.set(setting)
            check_divided(guarded, setting)
            if was_running and setting.running:  # also between the two writes
                assert all(not (lc & be) for lcs, bes in together for lc in lcs for be in bes)
            was_running = setting.running
        guarded.files.refuse = lambda operation, path: ""
        actuator.restore()
        assert guarded.files.tree() == guarded.before
        assert not guarded.path.exists()


def changes_of_a_guard(machine: CacheMachine, directory: Path) -> int:
    """Count the changes that a guard makes until it has given everything back."""
    guarded, count = GuardedCache(machine, directory), 0

    def refuse(operation: str, path: str) -> str:
        nonlocal count
        count += 1
        return ""

    guarded.files.refuse = refuse
    actuator = guarded.actuator()
    for setting in (NOTHING, Setting(True, 2, 3), Setting(True, 2, 6), NOTHING):
        actuator.set(setting)
    actuator.restore()
    return count


@pytest.mark.parametrize(
    ("name", "number"), [("intel-cdp", errno.EBUSY), ("amd", errno.ENOSPC), ("haswell", errno.EINVAL)]
)
def test_a_refusal_anywhere_can_be_given_back(name: str, number: int, tmp_path: Path) -> None:
    """Each change of a guard's life is refused once; what it then restores, or the next guard does, is all of it."""
    machine = MACHINES[name]
    total = changes_of_a_guard(machine, tmp_path / "count")
    assert total > 12
    for at in range(1, total + 1):
        guarded = GuardedCache(machine, tmp_path / str(at))
        guarded.files.refuse = guarded.refuse_at(at, os.strerror(number))
        actuator, reasons = guarded.actuator(), list[str]()
        for setting in (NOTHING, Setting(True, 2, 3), Setting(True, 2, 6), NOTHING):
            try:
                actuator.set(setting)
            except KnobRefused as error:
                reasons.append(error.reason)
        try:
            actuator.restore()
        except KnobRefused as error:
            reasons.append(error.reason)
            assert guarded.path.exists()
        (reason,) = reasons
        assert os.strerror(number) in reason
        guarded.actuator().restore()
        assert guarded.files.tree() == guarded.before
        assert not guarded.path.exists()


def test_a_refusal_has_the_kernels_words(tmp_path: Path) -> None:
    guarded = GuardedCache(HASWELL, tmp_path)
    guarded.files.make(f"{ROOT}/another")
    with pytest.raises(KnobRefused, match=r"tailor-be: No space left on device: Out of CLOSIDs"):
        guarded.actuator().set(Setting(True, 2, 3))
    guarded.actuator().restore()
    guarded.files.remove(f"{ROOT}/another")
    assert guarded.files.tree() == guarded.before


def test_ways_of_another_exclusive_group_are_refused(tmp_path: Path) -> None:
    guarded = GuardedCache(replace(INTEL, cache=PretendCache(20, 40 << 20)), tmp_path)
    guarded.files.write(f"{ROOT}/schemata", "L3:0=ffff0;1=ffff0\n")
    guarded.files.write(f"{ROOT}/theirs/schemata", "L3:0=f;1=f\n")
    guarded.files.write(f"{ROOT}/theirs/mode", "exclusive\n")
    before = guarded.files.tree()
    with pytest.raises(KnobRefused, match="Overlaps with exclusive group"):
        guarded.actuator().set(Setting(True, 2, 3))
    guarded.actuator().restore()
    assert guarded.files.tree() == before


def test_a_mask_that_is_not_kept_is_refused(tmp_path: Path) -> None:
    guarded = GuardedCache(INTEL, tmp_path)
    actuator = guarded.actuator()
    actuator.set(NOTHING)

    class Forgetful:
        """Files whose kernel takes masks and does not keep them."""

        def __init__(self, files: PretendResctrl) -> None:
            self._files = files
            self.read, self.exists, self.entries = files.read, files.exists, files.entries
            self.make, self.remove = files.make, files.remove

        def write(self, path: str, text: str) -> None:
            if "L3:" not in text:
                self._files.write(path, text)

    forgetful = CacheWays(Forgetful(guarded.files), guarded.journal(), lambda: [], lambda: [])
    with pytest.raises(KnobRefused, match="L3 reads back as 0=fffff;1=fffff after 0=ffff0;1=ffff0 was written"):
        forgetful.set(Setting(True, 2, 4))


def test_threads_and_forks_are_brought_in(tmp_path: Path) -> None:
    guarded = GuardedCache(INTEL, tmp_path)
    actuator = guarded.actuator()
    actuator.set(Setting(True, 2, 3))
    guarded.files.start(100, threads=(103,), of=900)  # a thread that is not in LC's group
    guarded.files.start(120, of=100)  # a fork: in it by birth
    guarded.files.start(210)
    guarded.files.end(110)
    guarded.lc.append(120)
    guarded.be += [210, 999]  # the last one has ended
    changes = actuator.set(Setting(True, 2, 3))
    assert [(change.old, change.new) for change in changes] == [("4 tasks", "5 tasks"), ("2 tasks", "3 tasks")]
    assert guarded.files.read(f"{LC}/tasks").split() == ["100", "101", "102", "103", "120"]
    assert guarded.files.read(f"{BE}/tasks").split() == ["200", "201", "210"]
    actuator.restore()
    assert guarded.files.read(f"{ROOT}/theirs/tasks") == ""
    assert guarded.files.read(f"{ROOT}/mon_groups/watched/tasks") == "200\n"


def test_a_task_that_ends_while_it_is_moved_is_no_refusal(tmp_path: Path) -> None:
    guarded, moved = GuardedCache(INTEL, tmp_path), list[str]()

    def refuse(operation: str, path: str) -> str:
        moved.append(path)
        if moved.count(f"{LC}/tasks") == 4:  # after 100, 101 and 102
            guarded.files.end(110)
        return ""

    guarded.files.refuse = refuse
    actuator = guarded.actuator()
    actuator.set(Setting(True, 2, 3))
    assert guarded.files.read(f"{LC}/tasks").split() == ["100", "101", "102"]
    actuator.restore()
    assert not guarded.path.exists()


def test_a_later_process_of_a_number_is_not_sent_home(tmp_path: Path) -> None:
    guarded = GuardedCache(INTEL, tmp_path)
    actuator = guarded.actuator()
    actuator.set(Setting(True, 2, 3))
    guarded.files.end(110)
    guarded.files.start(110)
    actuator.restore()
    assert "110" in guarded.files.read(f"{ROOT}/tasks").split()


def test_a_group_that_was_there_already_stays(tmp_path: Path) -> None:
    guarded = GuardedCache(INTEL, tmp_path)
    guarded.files.make(BE)
    guarded.files.write(f"{BE}/schemata", "L3:0=3f;1=ff\nMB:1=50\n")
    guarded.files.write(f"{BE}/tasks", "201\n")
    guarded.files.make(LC)
    before = guarded.files.tree()
    actuator = guarded.actuator()
    for setting in (NOTHING, Setting(True, 2, 3, bandwidth=0.2)):
        actuator.set(setting)
    actuator.restore()
    assert guarded.files.tree() == before


@pytest.mark.parametrize(
    ("name", "share", "limit"),
    [
        ("intel", 0.55, 50), ("intel", 0.01, 10), ("intel", 0.9, 90),
        ("amd", 0.25, 40), ("amd", 0.0001, 1), ("intel-mbps", 0.5, 9536),
    ],
)  # fmt: skip
def test_bandwidth_in_the_units_of_the_machine(name: str, share: float, limit: int, tmp_path: Path) -> None:
    """40 GB/s over two cache ids: a quarter is 5 GB/s each, 40 eighths; a half is 10 GB/s each, 9536 MiB/s."""
    guarded = GuardedCache(MACHINES[name], tmp_path)
    first = guarded.files.machine.ids[0]
    if name != "intel":
        guarded.files.write(
            f"{ROOT}/schemata", f"MB:{first}=100000\n" if name == "intel-mbps" else f"MB:{first}=2048\n"
        )
    actuator = guarded.actuator()
    actuator.set(Setting(True, 2, 3, bandwidth=share))
    assert set(Resctrl(guarded.files).schemata(BE)["MB"].values()) == {limit}
    lc = Resctrl(guarded.files).schemata(LC)["MB"]
    actuator.set(Setting(True, 2, 3))
    assert Resctrl(guarded.files).schemata(BE)["MB"] == Resctrl(guarded.files).schemata(ROOT)["MB"]
    assert Resctrl(guarded.files).schemata(LC)["MB"] == lc


def test_a_share_needs_the_whole(tmp_path: Path) -> None:
    guarded = GuardedCache(AMD, tmp_path)
    with pytest.raises(KnobRefused, match="was not measured"):
        guarded.actuator(gbs=0.0).set(Setting(True, 2, 3, bandwidth=0.5))
    assert BandwidthInfo(10, 10, 0.0).value(0.29, 0.0, 2) == 20


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (PretendResctrl(INTEL, mounted=False), "this kernel has no resctrl mounted at /sys/fs/resctrl"),
        (PretendResctrl(replace(INTEL, cache=None)), "this machine cannot divide its last-level cache"),
        (
            PretendResctrl(replace(INTEL, cache=None, bandwidth=None)),
            "this machine's resctrl only counts, and divides nothing",
        ),
        (
            PretendResctrl(CacheMachine(cache=PretendCache(8, 8 << 20, classes=4, split=True))),
            "this machine has 2 classes of cache, and LC, BE and the system need 3",
        ),
        (
            PretendResctrl(CacheMachine(cache=PretendCache(3, 3 << 20, least=2))),
            "a cache of 3 ways cannot be divided into two of at least 2",
        ),
    ],
)  # fmt: skip
def test_what_a_machine_lacks(files: PretendResctrl, said: str, tmp_path: Path) -> None:
    guarded = GuardedCache(INTEL, tmp_path)
    actuator = CacheWays(files, guarded.journal(), list, list)
    assert actuator.missing() == said
    assert actuator.ways == 0
    with pytest.raises(KnobRefused):
        actuator.set(NOTHING)


def test_ways_of_a_machine(tmp_path: Path) -> None:
    assert GuardedCache(MACHINES["intel-narrow"], tmp_path).actuator().ways == 11
