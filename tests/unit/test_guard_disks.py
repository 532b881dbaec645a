"""Disks that a guard divides: what LC and BE read and write, and what BE may, on control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.errors import KnobRefused
from framework.guard.jobs import JobEvent
from framework.guard.policies.static import Static
from framework.guard.policies.tailor import Tailor
from framework.model.batch_job import JobSpec
from framework.model.guard import NOTHING, Setting
from framework.model.guard_record import Acted, Decided
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.disk_share import LEAST_BPS, STEP_BPS, DiskShare
from framework.testbeds.host.disk_use import DiskUse
from framework.testbeds.host.disks import Disks, Limit
from framework.testbeds.host.guarded_groups import BE, GuardedGroups
from framework.testbeds.host.journal import Journal, JournalledFiles, boot_id, undo_of_files
from framework.testing.plant_machine import GREEDY_BPS, LC
from framework.testing.pretend_cgroups import PretendKernel
from framework.testing.pretend_disks import PretendDisks
from tests.guarded_kernel import JOBS, GuardedKernel
from tests.guarded_kernel import LC as CONTAINERS
from tests.unit.test_guard_machine import Run, plant_machine, queue_of

MB = 1e6
WEB, STORE = (path for path, _ in CONTAINERS.values())
GREEDY = (GREEDY_BPS, GREEDY_BPS)


@pytest.fixture(params=[1, 2])
def here(request: pytest.FixtureRequest, tmp_path: Path) -> GuardedKernel:
    return kernel_with_jobs(request.param, tmp_path)


def kernel_with_jobs(version: int, directory: Path) -> GuardedKernel:
    return GuardedKernel(version, directory, lambda groups: DiskShare(groups, 100.0), frozenset({"blkio", "io"}))


def limits(here: GuardedKernel) -> dict[str, Limit]:
    """Return group -> its limit, without those that have none."""
    disks = Disks(here.groups.cgroups)
    groups = {"BE": here.groups.be, **dict(here.groups.job_groups())}
    return {name: limit for name, group in groups.items() for limit in disks.limits(group).values()}


# --------------------------------------------------------------------------- the sensor


def test_rates_are_those_of_all_groups_of_a_side(here: GuardedKernel) -> None:
    here.actuator().set(NOTHING)
    use = DiskUse(here.groups, limited=True)
    assert use.read(10.0) == {}
    job, other = here.job("job-1"), here.job("job-2")
    here.kernel.disks.work({WEB: (5 * MB, 10 * MB), STORE: (0, 15 * MB), job: (40 * MB, 0), other: (0, 2 * MB)}, 2.0)
    assert use.read(12.0) == pytest.approx({"lc_disk_mbs": 30.0, "be_disk_mbs": 42.0})
    assert use.read(12.9) == pytest.approx({"lc_disk_mbs": 30.0, "be_disk_mbs": 42.0}), "its window is not over"
    assert use.read(13.0) == {"lc_disk_mbs": 0.0, "be_disk_mbs": 0.0}


def test_a_job_that_ends_takes_nothing_from_the_others(here: GuardedKernel) -> None:
    here.actuator().set(NOTHING)
    here.kernel.disks.work({here.job("job-1"): (900 * MB, 0)}, 1.0)
    use = DiskUse(here.groups)
    use.read(0.0)
    here.kernel.disks.work({here.job("job-2"): (8 * MB, 0)}, 1.0)
    here.end_job("job-1")
    assert use.read(1.0)["be_disk_mbs"] == pytest.approx(8.0)


def test_an_application_that_is_gone_has_no_reading(here: GuardedKernel) -> None:
    here.actuator().set(NOTHING)
    use = DiskUse(here.groups)
    use.read(0.0)
    assert set(use.read(1.0)) == {"lc_disk_mbs", "be_disk_mbs"}
    for _, pid in CONTAINERS.values():
        here.kernel.end(pid)
    assert use.read(2.0) == {"be_disk_mbs": 0.0}


def test_a_group_that_does_not_show_its_bytes_makes_its_side_missing(here: GuardedKernel) -> None:
    here.actuator().set(NOTHING)
    use = DiskUse(here.groups)
    use.read(0.0)
    here.kernel.refuse = lambda operation, path: "Input/output error" if f"{STORE}/" in path else ""
    assert use.read(1.0) == {"be_disk_mbs": 0.0}


def test_of_several_disks_the_one_used_most_counts_and_a_volume_not_twice(here: GuardedKernel) -> None:
    here.kernel.disks.names |= {"8:0": "sda", "252:0": "dm-0"}
    here.actuator().set(NOTHING)
    use = DiskUse(here.groups)
    use.read(0.0)
    here.kernel.disks.work({WEB: (10 * MB, 0)}, 1.0, "254:0")
    for disk in ("8:0", "252:0"):  # a volume on sda
        here.kernel.disks.work({WEB: (0, 25 * MB)}, 1.0, disk)
    assert use.read(1.0)["lc_disk_mbs"] == pytest.approx(25.0)


def test_v1_counts_from_the_first_limit_on(tmp_path: Path) -> None:
    here = kernel_with_jobs(1, tmp_path)
    use, promised = DiskUse(here.groups), DiskUse(here.groups, limited=True)
    assert "only from their first limit on" in use.missing()
    assert promised.missing() == ""
    here.kernel.disks.work({WEB: (0, 10 * MB)}, 1.0)
    assert (promised.read(0.0), promised.read(1.0)) == ({}, {}), "not zero: nobody counted"
    assert here.actuator().set(NOTHING) == []
    assert limits(here) == {}
    assert use.missing() == ""
    assert promised.read(2.0) == {}
    here.kernel.disks.work({WEB: (0, 10 * MB)}, 1.0)
    assert promised.read(3.0) == pytest.approx({"lc_disk_mbs": 10.0, "be_disk_mbs": 0.0})


# --------------------------------------------------------------------------- what a machine lacks


@pytest.mark.parametrize("version", [1, 2])
def test_a_kernel_without_the_controller(version: int) -> None:
    disks = Disks(Cgroups(PretendKernel(version, lacks=frozenset({"blkio", "io"}))))
    assert disks.missing() == disks.missing_counts() == "this kernel has no control groups for disks"


def test_a_kernel_that_does_not_limit() -> None:
    kernel = PretendKernel(1)
    kernel.disks.throttles = False
    assert "CONFIG_BLK_DEV_THROTTLING" in Disks(Cgroups(kernel)).missing()


@pytest.mark.parametrize("version", [1, 2])
def test_a_machine_without_a_disk(version: int) -> None:
    kernel = PretendKernel(version)
    kernel.disks.names.clear()
    assert Disks(Cgroups(kernel)).missing() == "this machine shows no disk"


def test_groups_without_the_controller_io() -> None:
    assert "do not have the controller io" in Disks(Cgroups(PretendKernel(2))).missing_counts()


def test_a_bandwidth_that_is_not_known(here: GuardedKernel) -> None:
    assert DiskShare(here.groups, 0.0).missing() == "the bandwidth of the disk is not known"


def test_what_lies_in_memory_or_on_another_disk_is_no_disk() -> None:
    kernel = PretendKernel()
    kernel.disks.names |= {"7:3": "loop3", "253:0": "zram0", "11:0": "sr0", "259:0": "nvme0n1", "8:16": "sdb"}
    assert Disks(Cgroups(kernel)).names() == {"254:0": "vda", "259:0": "nvme0n1", "8:16": "sdb"}


# --------------------------------------------------------------------------- the actuator


def test_v1_divides_among_the_jobs_that_run(tmp_path: Path) -> None:
    here = kernel_with_jobs(1, tmp_path)
    share = here.actuator()
    [change] = share.set(Setting(True, 1, disk_mbs=41.7))
    assert (change.knob, change.old, change.new) == ("vda, 2 of the jobs", "no limit", "20.5 MB/s")
    assert limits(here) == {kind: Limit(20_500_000, 20_500_000) for kind in ("stream", "compute")}
    share.set(Setting(True, 1, disk_mbs=41.0, paused=frozenset({"stream"})))
    assert limits(here)["compute"] == Limit(41_000_000, 41_000_000)


def test_v2_limits_them_as_a_whole(tmp_path: Path) -> None:
    here = kernel_with_jobs(2, tmp_path)
    [change] = here.actuator().set(Setting(True, 1, disk_mbs=41.7))
    assert (change.knob, change.old, change.new) == ("vda, BE", "no limit", "41 MB/s")
    assert limits(here) == {"BE": Limit(41_000_000, 41_000_000)}


@given(
    version=st.sampled_from([1, 2]),
    wanted=st.lists(st.one_of(st.none(), st.floats(0, 5000)), min_size=1, max_size=5),
    ended=st.sets(st.sampled_from(sorted(JOBS)), max_size=1),
)
def test_jobs_have_no_more_than_the_last_setting_and_never_nothing(
    tmp_path_factory: pytest.TempPathFactory, version: int, wanted: list[float | None], ended: set[str]
) -> None:
    here = kernel_with_jobs(version, tmp_path_factory.mktemp("here"))
    share = here.actuator()
    for mbs in wanted[:-1]:
        share.set(Setting(True, 1, disk_mbs=mbs))
    for name in ended:
        here.end_job(name)
    last = wanted[-1]
    share.set(Setting(True, 1, disk_mbs=last))
    let = here.kernel.disks.work(dict.fromkeys(map(here.job, here.running), GREEDY), 1.0)
    most = len(let) * GREEDY_BPS if last is None else min(len(let) * GREEDY_BPS, max(LEAST_BPS, last * MB))
    for direction in (0, 1):
        total = sum(use[direction] for use in let.values())
        assert most - STEP_BPS - len(let) <= total <= most * (1 + 1e-9)
        assert all(use[direction] > 0 for use in let.values())


def test_jobs_that_stand_still_keep_their_limits(here: GuardedKernel) -> None:
    share = here.actuator()
    share.set(Setting(True, 1, disk_mbs=20.0))
    before = limits(here)
    assert share.set(NOTHING) == []
    assert limits(here) == before


def test_a_limit_that_the_kernel_did_not_take_is_a_refusal(
    here: GuardedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = here.actuator()
    share.set(NOTHING)
    monkeypatch.setattr(type(here.kernel.disks), "set", lambda *arguments: None)
    with pytest.raises(KnobRefused, match=r"read=20000000.* was written, and Limit\(read=None.* is there"):
        share.set(Setting(True, 1, disk_mbs=20.0 * (1 if share._disks.nested else 2)))  # type: ignore[attr-defined]


def test_a_disk_that_refuses_keeps_no_other_from_being_limited(
    here: GuardedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    disks = here.kernel.disks
    disks.names = {"8:0": "sda", **disks.names}
    taken = type(disks).set

    def refusing(self: PretendDisks, knob: str, path: str, name: str, text: str) -> None:
        if text.startswith("8:0"):
            raise KnobRefused(knob, "Operation not supported")
        taken(self, knob, path, name, text)

    monkeypatch.setattr(type(disks), "set", refusing)
    with pytest.raises(KnobRefused, match="Operation not supported"):
        here.actuator().set(Setting(True, 1, disk_mbs=20.0))
    assert limits(here)
    monkeypatch.undo()
    here.kernel.refuse = lambda operation, path: str(disks.names.pop("8:0", "") and "") if operation == "write" else ""
    assert {change.knob[:3] for change in here.actuator().set(Setting(True, 1, disk_mbs=30.0))} == {"vda"}, "taken out"


def test_a_controller_of_v2_comes_back_after_jobs_had_it(tmp_path: Path) -> None:
    """The engine gives it to the jobs' groups; the kernel takes it from nobody whose children have it."""
    kernel = PretendKernel(2)
    before = kernel.shown()
    journal = Journal(tmp_path / "journal.jsonl", boot_id(kernel), undo_of_files(kernel))
    groups = GuardedGroups(Cgroups(kernel), JournalledFiles(kernel, journal), dict, dict, disks=True)
    groups.make()
    assert "io" in kernel.groups[""].controllers
    kernel.add(f"/{BE}/job-1", 201)
    DiskShare(groups, 100.0).set(Setting(True, 1, disk_mbs=20.0))
    kernel.end(201)
    assert journal.restore() == []
    assert kernel.shown() == before


def test_without_a_disk_to_divide_nothing_is_asked_of_the_controller(tmp_path: Path) -> None:
    kernel = PretendKernel(2)
    journal = Journal(tmp_path / "journal.jsonl", boot_id(kernel), undo_of_files(kernel))
    GuardedGroups(Cgroups(kernel), JournalledFiles(kernel, journal), dict, dict).make()
    assert kernel.groups[""].controllers == {"cpuset", "cpu", "memory"}


# --------------------------------------------------------------------------- a guard


@pytest.mark.parametrize("version", [1, 2])
def test_a_guard_leaves_the_service_its_part_of_the_disk(version: int, tmp_path: Path) -> None:
    here = plant_machine(version, load=0.4, disk_mbs=200.0)
    before = here.kernel.shown()
    run = Run(
        here, tmp_path, queue_of([JobSpec(f"job-{number}", "i", kind="compute") for number in range(3)]), Tailor()
    )
    assert run.run(120) == []
    assert here.kernel.shown() == before
    steps = [{path: use for path, use in step.items() if path != LC} for step in here.disk]
    worked = [step for step in steps if step]
    assert worked
    assert all(GREEDY_BPS not in use for step in worked for use in step.values()), "no job is without a limit, ever"
    lc_mbs = here.disk[-1][LC][1] / MB
    for direction in (0, 1):
        most = max(sum(use[direction] for use in step.values()) for step in worked) / MB
        assert 0.9 * 200.0 - 1.2 * lc_mbs - 2.0 <= most <= 0.9 * 200.0 - 0.8 * lc_mbs
    read = [entry.sample.lc_disk_mbs for entry in run.entries if isinstance(entry, Decided)]
    known = [value for value in read if value is not None]
    assert len(known) > 0.9 * len(read)
    assert sum(known) / len(known) == pytest.approx(lc_mbs, rel=0.02)
    acted = [entry for entry in run.entries if isinstance(entry, Acted) and entry.actuator == "disk"]
    assert {entry.knob for entry in acted} >= ({"vda, BE"} if version == 2 else {"vda, 3 of the jobs"})
    assert any("the disk, less what LC uses" in entry.rule for entry in acted)


@pytest.mark.parametrize("version", [1, 2])
def test_a_job_that_waits_for_the_disk_is_ended(version: int, tmp_path: Path) -> None:
    """``PretendJobs.remove`` fails where a limit keeps a process waiting; the jobs that stay are limited again."""
    here = plant_machine(version, load=0.2, disk_mbs=100.0)
    here.jobs.needs_s = 1e9
    specs = [JobSpec("short", "i", kind="compute", limit_s=3.0, attempts=1), JobSpec("long", "i", kind="compute")]
    queue = queue_of(specs)
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=10.0))
    ends: list[JobEvent] = []
    run.start(60)
    assert [job.reason for job in queue.all()] == ["it used more than 3 s of CPU time", ""]
    alone = [step for step in here.disk if len(step) == 2]
    assert alone
    assert all(use[1] <= 0.9 * 0.25 * 100 * MB for step in alone for path, use in step.items() if path != LC)
    ends += run.guard.jobs.stop()
    assert [event.job.spec.name for event in ends] == ["long"]
    assert run.machine.restore() == []


def test_a_guard_without_a_disk_to_divide_sets_none(tmp_path: Path) -> None:
    here = plant_machine(1, load=0.2)
    run = Run(here, tmp_path, queue_of(), Tailor())
    run.run(30)
    assert "disk" not in {actuator.name for actuator in run.machine.actuators}
    assert here.kernel.disks.counting == set()
