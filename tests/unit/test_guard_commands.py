"""Jobs that are commands of this machine, on the pretended kernel: groups, locks, what is left, what is refused."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.api.app import app_of
from framework.bootstrap.adapters import opened
from framework.config.settings import Settings
from framework.errors import DeploymentFailed
from framework.guard.policies.static import Static
from framework.guard.policies.tailor import Tailor
from framework.model.batch_job import BatchJob, JobSpec, JobState
from framework.model.guard import NOTHING, Decision, Setting
from framework.testbeds.host.cgroups import Cgroups
from framework.testbeds.host.command_attempts import AttemptDirectory
from framework.testbeds.host.command_runner import ATTEMPTS, GONE, UNSEEN, CommandRunner, account_of
from framework.testbeds.host.command_supervisor import PROCESS, Output, started, write
from framework.testbeds.host.guarded_groups import BE
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testbeds.host.routing_runner import RoutingRunner
from framework.testing.plant_machine import PlantMachine
from framework.testing.pretend_cgroups import PretendKernel
from framework.testing.pretend_commands import PretendCommands
from tests.unit.test_guard_machine import Killed, Run, plant_machine, queue_of


def command(number: int = 1, attempt: int = 1, **more: object) -> BatchJob:
    spec = JobSpec(f"job-{number}", command=("sort", "; reboot"), kind="compute", user="nobody", directory="/tmp")
    return BatchJob(number, replace(spec, **more), JobState.RUNNING, attempt)  # type: ignore[arg-type]


def kernel_with_be(version: int = 1) -> PretendKernel:
    kernel = PretendKernel(version)
    for tree in Cgroups(kernel).trees():
        kernel.make(f"{tree}/{BE}")
    kernel.groups[f"/{BE}"].cpus = frozenset({2, 3})
    return kernel


@pytest.fixture
def commands() -> PretendCommands:
    return PretendCommands(kernel_with_be())


@pytest.mark.parametrize("version", [1, 2])
def test_an_attempt_has_a_group_with_be_s_cpus(version: int, tmp_path: Path) -> None:
    commands = PretendCommands(kernel_with_be(version))
    runner = commands.runner(tmp_path)
    runner.start(command(environment={"A": "b"}))
    group = commands.kernel.groups[f"/{BE}/tailor-job-1-1.job"]
    assert commands.kernel.effective(f"/{BE}/tailor-job-1-1.job") == {2, 3}
    assert group.memory == ""
    [seen] = runner.look()
    assert (seen.container, seen.kind, seen.status) == ("tailor-job-1-1", "compute", None)
    assert runner.processes() == {"tailor-job-1-1.job": ("compute", seen.pid)}
    description = AttemptDirectory(tmp_path / ATTEMPTS / "tailor-job-1-1", commands.kernel)
    assert description.path.stat().st_mode & 0o777 == 0o700
    told = (description.path / "attempt.json").read_text()
    assert '["sort", "; reboot"]' in told, "words, which no shell reads"
    assert '"A": "b"' in told
    assert os.environ["HOME"] == "/nonexistent" or f'"HOME": "{os.environ["HOME"]}"' not in told


@pytest.mark.parametrize(("version", "limit"), [(1, str(64 * 2**20)), (2, str(64 * 2**20))])
def test_memory_is_limited_by_the_group(version: int, limit: str, tmp_path: Path) -> None:
    commands = PretendCommands(kernel_with_be(version))
    commands.runner(tmp_path).start(command(memory_mib=64))
    assert commands.kernel.groups[f"/{BE}/tailor-job-1-1.job"].memory == limit


def test_a_limit_that_this_kernel_has_not_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("framework.testing.pretend_cgroups.V1", ("cpuset", "cpu", "cpuacct", "freezer"))
    commands = PretendCommands(kernel_with_be())
    runner = commands.runner(tmp_path)
    with pytest.raises(DeploymentFailed, match="memory_mib: this kernel limits the memory of no group"):
        runner.start(command(memory_mib=64))
    assert commands.began == []
    runner.remove(["tailor-job-1-1"])
    assert runner.look() == []
    runner.start(command())
    assert commands.began == ["tailor-job-1-1"]


def test_an_attempt_begins_once(tmp_path: Path, commands: PretendCommands) -> None:
    runner = commands.runner(tmp_path)
    runner.start(command())
    runner.start(command())
    commands.runner(tmp_path).start(command())
    commands.work(f"/{BE}/tailor-job-1-1.job", commands.needs_s)
    runner.start(command())
    assert commands.began == ["tailor-job-1-1"]
    [seen] = runner.look()
    assert (seen.pid, seen.status) == (0, 0)


def test_an_attempt_that_is_just_beginning_is_not_started_again(tmp_path: Path, commands: PretendCommands) -> None:
    directory = AttemptDirectory(tmp_path / ATTEMPTS / "tailor-job-1-1", commands.kernel)
    directory.make()
    lock = directory.lock()  # as a supervisor has it whose guard was killed, and that has not joined its group yet
    assert lock is not None
    runner = commands.runner(tmp_path)
    runner.start(command())
    assert commands.began == []
    assert [(seen.pid, seen.status) for seen in runner.look()] == [(0, None)]
    os.close(lock)
    runner.start(command())
    assert commands.began == ["tailor-job-1-1"]


def test_an_attempt_whose_process_only_begins_is_not_removed_under_it(
    tmp_path: Path, commands: PretendCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("framework.testbeds.host.command_runner.ENDS_IN_S", 0.05)
    directory = AttemptDirectory(tmp_path / ATTEMPTS / "tailor-job-1-1", commands.kernel)
    directory.make()
    lock = directory.lock()
    assert lock is not None
    runner = commands.runner(tmp_path)
    with pytest.raises(DeploymentFailed, match="tailor-job-1-1: SIGKILL did not end it"):
        runner.remove(["tailor-job-1-1"])
    assert directory.path.exists()
    os.close(lock)
    runner.remove(["tailor-job-1-1"])
    assert not directory.path.exists()


def test_a_later_process_of_its_number_is_not_taken_for_it(tmp_path: Path, commands: PretendCommands) -> None:
    runner = commands.runner(tmp_path)
    runner.start(command())
    pid = commands.here["tailor-job-1-1"].pid
    commands.kernel.leave(pid)
    assert [(seen.status, seen.reason) for seen in runner.look()] == [(GONE, UNSEEN)]
    commands.kernel.add("/other", pid)
    assert [(seen.status, seen.reason) for seen in runner.look()] == [(GONE, UNSEEN)]
    assert runner.processes() == {}


def test_a_zombie_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        child = process.pid
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        directory = AttemptDirectory(tmp_path / "attempt", HostKernelFiles())
        directory.make()
        write(directory.path / PROCESS, {"pid": child, "started": started(child)})
        assert directory.begun()
        assert directory.process() == 0
        write(directory.path / PROCESS, {"pid": os.getpid(), "started": started(os.getpid())})
        assert directory.process() == os.getpid()


def test_after_a_reboot_attempts_are_gone(tmp_path: Path, commands: PretendCommands) -> None:
    commands.runner(tmp_path).start(command())
    fresh = kernel_with_be()
    fresh.boot = "boot-2"
    runner = CommandRunner(fresh, tmp_path)
    assert runner.look() == []
    assert list((tmp_path / ATTEMPTS).iterdir()) == []


def test_a_group_of_a_guard_with_another_home_is_removed(tmp_path: Path, commands: PretendCommands) -> None:
    commands.runner(tmp_path / "a").start(command(7))
    other = commands.runner(tmp_path / "b")
    [seen] = other.look()
    assert (seen.container, seen.pid, seen.status) == ("tailor-job-7-1", 0, None)
    other.remove([seen.container])
    assert commands.here == {}
    assert f"/{BE}/tailor-job-7-1.job" not in commands.kernel.groups


def test_names_that_begin_alike_are_not_mixed_up(tmp_path: Path, commands: PretendCommands) -> None:
    runner = commands.runner(tmp_path)
    for number, kind in ((1, "compute"), (11, "disk"), (111, "memory")):
        runner.start(command(number, kind=kind))
    runner.look()
    runner.remove(["tailor-job-1-1"])
    assert sorted(commands.here) == ["tailor-job-11-1", "tailor-job-111-1"]
    assert {kind for kind, _ in runner.processes().values()} == {"compute", "disk", "memory"}
    assert {seen.container for seen in runner.look()} == {"tailor-job-11-1", "tailor-job-111-1"}


@pytest.mark.parametrize(
    ("user", "says"),
    [("root", "root is root, or of root's group; allowed: an unprivileged user"), ("no-such", "no user 'no-such'")],
)
def test_users_that_are_refused(user: str, says: str, tmp_path: Path, commands: PretendCommands) -> None:
    with pytest.raises(DeploymentFailed, match=says):
        commands.runner(tmp_path).start(command(user=user))
    assert not (tmp_path / ATTEMPTS).exists()
    assert account_of("nobody").uid > 0


def test_each_kind_of_job_has_its_runner(tmp_path: Path) -> None:
    here = plant_machine()
    here.kernel.add(f"/{BE}", 1)
    runner = RoutingRunner(here.jobs, here.commands.runner(tmp_path))
    runner.start(BatchJob(1, JobSpec("a", "some/image", kind="compute"), JobState.RUNNING, 1))
    runner.start(command(2))
    assert here.jobs.began == ["tailor-job-1-1"]
    assert here.commands.began == ["tailor-job-2-1"]
    assert {seen.container for seen in runner.look()} == {"tailor-job-1-1", "tailor-job-2-1"}
    assert set(runner.numbers().values()) == set(runner.processes()) == {"tailor-job-1-1", "tailor-job-2-1.job"}
    runner.save_output("tailor-job-1-1", tmp_path / "1.txt")
    runner.save_output("tailor-job-2-1", tmp_path / "2.txt")
    assert [(tmp_path / name).read_text() for name in ("1.txt", "2.txt")] == ["output of tailor-job-1-1\n", ""]
    runner.remove(["tailor-job-1-1", "tailor-job-2-1"])
    assert runner.look() == []


def test_the_last_output_is_kept(tmp_path: Path) -> None:
    output = Output(tmp_path / "output", most=10)
    for number in range(20):
        output.add(b"%03d\n" % number)
    output.close()
    kept = (tmp_path / "output.1").read_bytes() + (tmp_path / "output").read_bytes()
    assert kept == b"016\n017\n018\n019\n"


def specs(count: int) -> list[JobSpec]:
    """Return jobs of both kinds in turn."""
    return [
        JobSpec(f"job-{number}", kind="compute", cores=2.0, command=("sort",), user="nobody", directory="/")
        if number % 2
        else JobSpec(f"job-{number}", "some/image", kind="compute", cores=2.0)
        for number in range(count)
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_commands_run_beside_the_service_and_nothing_is_left(version: int, tmp_path: Path) -> None:
    here, queue = plant_machine(version), queue_of(specs(6))
    before = here.kernel.shown()
    assert Run(here, tmp_path, queue, Tailor()).run(300) == []
    assert [job.state for job in queue.all()] == [JobState.FINISHED] * 6
    assert [job.attempt for job in queue.all()] == [1] * 6
    assert here.kernel.shown() == before
    assert list((tmp_path / ATTEMPTS).iterdir()) == []
    assert len(here.commands.began) == len(here.jobs.began) == 3


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_guard_with_another_home_left_goes_with_this_one(version: int, tmp_path: Path) -> None:
    here = plant_machine(version, load=0.2)
    before = here.kernel.shown()
    lost, queue = Run(here, tmp_path / "lost", queue_of(specs(2)), Static(cores=4, period_s=1.0)), queue_of([])
    here.jobs.needs_s = here.commands.needs_s = 1e9
    lost.start(5)
    assert len(here.commands.here) == len(here.jobs.running()) == 1
    assert Run(here, tmp_path / "home", queue, Static(cores=4, period_s=1.0)).run(5) == []
    assert here.commands.here == {}
    assert here.kernel.shown().keys() == before.keys()


def test_an_ended_attempt_leaves_no_group(tmp_path: Path, commands: PretendCommands) -> None:
    """A keeper leaves the attempt for the next guard to note, and BE's group has to go without it."""
    runner = commands.runner(tmp_path)
    runner.start(command())
    commands.work(f"/{BE}/tailor-job-1-1.job", commands.needs_s)
    assert f"/{BE}/tailor-job-1-1.job" in commands.kernel.groups
    assert [seen.status for seen in runner.look()] == [0]
    assert f"/{BE}/tailor-job-1-1.job" not in commands.kernel.groups
    assert [seen.status for seen in commands.runner(tmp_path).look()] == [0]


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_group_that_a_killed_engine_left_goes_too(version: int, tmp_path: Path) -> None:
    here = plant_machine(version, load=0.2)
    before = here.kernel.shown()
    run = Run(here, tmp_path, queue_of([]), Static(cores=4, period_s=1.0))
    run.start(2)
    here.kernel.add(f"/{BE}/0123456789abcdef", 9)
    here.kernel.leave(9)
    run.guard.jobs.stop()
    assert run.machine.restore() == []
    assert here.kernel.shown() == before


@settings(max_examples=60, deadline=None)
@given(version=st.sampled_from([1, 2]), at=st.integers(0, 1500), again=st.integers(0, 800))
def test_a_kill_at_any_moment_leaves_no_command_and_doubles_none(
    tmp_path_factory: pytest.TempPathFactory, version: int, at: int, again: int
) -> None:
    """``PretendCommands.launch`` fails where a command begins beside an earlier attempt of its job."""
    home = tmp_path_factory.mktemp("home")
    here, queue = plant_machine(version, load=0.5, seconds=100_000), queue_of(specs(4))
    here.jobs.needs_s = here.commands.needs_s = 10.0
    before = here.kernel.shown()
    for moment in (at, again):
        count = 0

        def kill(operation: str, path: str, moment: int = moment) -> str:
            nonlocal count
            count += 1
            if count > moment:
                raise Killed
            return ""

        run = Run(here, home, queue, Tailor())
        here.kernel.refuse = kill
        with pytest.raises(Killed):
            run.start(None)
        here.kernel.refuse = lambda operation, path: ""
    assert Run(here, home, queue, Tailor()).run(90) == []
    assert here.kernel.shown() == before
    assert here.commands.here == {}
    assert list((home / ATTEMPTS).iterdir()) == []
    assert [job.state for job in queue.all()] == [JobState.FINISHED] * 4
    assert len(set(here.commands.began)) == len(here.commands.began)


def test_the_next_guard_takes_over_a_command_that_still_runs(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of([specs(2)[1]])
    here.commands.needs_s = 30.0
    Run(here, tmp_path, queue, Static(cores=1, period_s=1.0)).start(10)
    assert list(here.commands.here) == ["tailor-job-1-1"]
    assert Run(here, tmp_path, queue, Static(cores=1, period_s=1.0)).run(40) == []
    [job] = queue.all()
    assert (job.state, job.attempt) == (JobState.FINISHED, 1)
    assert here.commands.began == ["tailor-job-1-1"]


def ended_with(here: PlantMachine, run: Run) -> list[str]:
    """Let BE stand still and end everything; returns what could not be given back."""
    run.guard._act(Decision(NOTHING, {"running": "a violation"}))
    assert here.kernel.stands_still(f"/{BE}")
    return list(run.machine.restore())


def test_commands_end_while_all_stand_still(tmp_path: Path) -> None:
    """As a keeper ends them; ``PretendCommands.kill`` fails where BE is frozen still."""
    here, queue = plant_machine(load=0.2), queue_of(specs(2))
    here.jobs.needs_s = here.commands.needs_s = 1e9
    before = here.kernel.shown()
    run = Run(here, tmp_path, queue, Static(cores=4, period_s=1.0))
    run.start(5)
    assert len(here.commands.here) == 1
    assert ended_with(here, run) == []
    assert here.commands.here == {}
    assert here.kernel.shown() == before


def test_commands_end_where_the_engine_is_away(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of(specs(2))
    here.jobs.needs_s = here.commands.needs_s = 1e9
    run = Run(here, tmp_path, queue, Static(cores=4, period_s=1.0))
    run.start(5)

    def away(operation: str) -> None:
        raise DeploymentFailed("the engine could not do it")

    here.jobs.refuse = away
    assert "the engine could not do it" in ended_with(here, run)
    assert here.commands.here == {}


def test_removing_one_command_lets_no_other_run(tmp_path: Path) -> None:
    here, queue = plant_machine(load=0.2), queue_of([spec for spec in specs(6) if spec.is_command])
    here.commands.needs_s = 1e9
    run = Run(here, tmp_path, queue, Static(cores=2, period_s=1.0))
    run.start(5)
    run.guard._act(Decision(NOTHING, {"running": "a violation"}))
    assert here.commands.running() == []
    run.machine.runner.remove(["tailor-job-1-1"])
    assert sorted(here.commands.here) == ["tailor-job-2-1", "tailor-job-3-1"]
    assert here.commands.running() == []
    run.guard._act(Decision(Setting(True, 2.0), {"running": "again"}))
    assert len(here.commands.running()) == 2


def test_the_use_of_a_process_that_left_be_s_group_is_missing(tmp_path: Path) -> None:
    """A process that has ended and was not waited for is shown in the root group, whose use is everybody's."""
    here = plant_machine(load=0.2)
    machine = here.machine(tmp_path)
    machine.prepare()
    here.kernel.add(f"/{BE}/tailor-job-1-1.job", 77)
    here.kernel.run(f"/{BE}/tailor-job-1-1.job", 2.5)
    assert machine.used(77) == 2.5
    here.kernel.pids[77] = ""
    assert machine.used(77) is None


def test_no_route_adds_a_job(tmp_path: Path) -> None:
    """A guard's pages are for looking; nothing else of the service knows the queue of its jobs."""
    settings = Settings.from_environment({"TAILOR_HOME": str(tmp_path)})
    kept = opened(settings)
    app = app_of(kept, settings)
    paths = app.openapi()["paths"]
    assert {path: set(methods) for path, methods in paths.items() if "guard" in path or "job" in path} == {
        "/v1/guards": {"get"},
        "/v1/guards/{guard}": {"get"},
    }
    assert kept.guards.queue not in vars(app.state.service).values()
    kept.close()
