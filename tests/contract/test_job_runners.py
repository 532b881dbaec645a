"""The contract kit of job runners, on real processes and containers, and what only commands of this machine have."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from framework.errors import DeploymentFailed
from framework.model.batch_job import JobSpec
from framework.testbeds.docker.job_runner import DockerJobs
from framework.testbeds.host.cgroups import Cgroups, Group
from framework.testbeds.host.command_runner import ATTEMPTS, GONE, UNSEEN, CommandRunner, supervisor
from framework.testbeds.host.kernel_files import HostKernelFiles
from framework.testing.job_runner import GivenRunner, JobRunnerContract, until

pytestmark = pytest.mark.docker  # where containers can be made, control groups can

COMMAND = JobSpec("command", user="nobody", directory="/", network="host")


class Be:
    """A control group as BE's, of another name: the tests of guards may run at the same time."""

    def __init__(self) -> None:
        self.name = f"tailor-test-{uuid.uuid4().hex[:8]}"
        self.files = HostKernelFiles()
        self.cgroups = Cgroups(self.files)
        self.group = self.cgroups.top(self.name)
        for directory in self.directories():
            self.files.make(directory)
        if self.cgroups.versions["cpuset"] == 1:
            root = self.group["cpuset"].rpartition("/")[0]
            for name in ("cpuset.cpus", "cpuset.mems"):
                self.files.write(f"{self.group['cpuset']}/{name}", self.files.read(f"{root}/{name}").strip())

    def directories(self) -> list[str]:
        return list(dict.fromkeys(self.group.directories.values()))

    def of(self, container: str) -> Group:
        return self.group.child(f"{container}.job")

    def remove(self) -> None:
        for directory in self.directories():
            self.files.remove(directory)


@pytest.fixture
def be() -> Iterator[Be]:
    made = Be()
    try:
        yield made
    finally:
        made.remove()


class TestCommandRunner(JobRunnerContract):
    """Commands of this machine."""

    @pytest.fixture
    def given(self, be: Be, tmp_path: Path) -> Iterator[GivenRunner]:
        runner = CommandRunner(be.files, tmp_path, be.name)
        try:
            yield GivenRunner(lambda: CommandRunner(be.files, tmp_path, be.name), COMMAND)
        finally:
            be.cgroups.set_frozen(be.group, False)
            runner.remove([seen.container for seen in runner.look()])

    def test_it_is_nobody_in_a_group_of_its_own(self, given: GivenRunner, be: Be, tmp_path: Path) -> None:
        asked = (
            "id -u; id -G; grep NoNewPrivs /proc/self/status; cat /proc/self/oom_score_adj; pwd; env; ls /proc/self/fd"
        )
        runner, job = given.runner(), given.job(1, "sh", "-c", f"{asked}; cat /proc/self/cgroup")
        job = replace(job, spec=replace(job.spec, directory="/tmp", environment={"A": "b c"}))
        runner.start(job)
        until(runner, job, lambda seen: seen.status == 0)
        runner.save_output(job.container, tmp_path / "output")
        said = (tmp_path / "output").read_text().splitlines()
        assert said[:5] == ["65534", "65534", "NoNewPrivs:\t1", "1000", "/tmp"]
        rest = said[5:]
        assert {line.partition("=")[0] for line in rest if "=" in line and ":" not in line.partition("=")[0]} == {
            "A", "PATH", "HOME", "USER", "LOGNAME", "PWD",
        }  # fmt: skip
        assert "A=b c" in rest
        assert [line for line in rest if line.isdigit()] == ["0", "1", "2", "3"], "the fourth is of ls itself"
        groups = [line.rpartition(":")[2] for line in rest if ":/" in line and "=/" not in line]
        assert groups
        assert set(groups) == {f"/{be.name}/{job.container}.job"}

    def test_it_stands_still_with_its_group(self, given: GivenRunner, be: Be, tmp_path: Path) -> None:
        runner, job = given.runner(), given.job(1, "sh", "-c", "while true; do :; done")
        runner.start(job)
        until(runner, job, lambda seen: bool(seen.pid))
        group = be.of(job.container)
        be.cgroups.set_frozen(be.group, True)
        _until_it_stands_still(be, group)
        before = be.cgroups.cpu_s(group)
        time.sleep(0.3)
        assert be.cgroups.cpu_s(group) == before
        be.cgroups.set_frozen(be.group, False)
        eventually(lambda: be.cgroups.cpu_s(group) > before, "it goes on")

    def test_one_that_uses_more_memory_than_it_may_is_killed(self, given: GivenRunner, be: Be) -> None:
        if "memory" not in be.cgroups.versions:
            pytest.skip("this kernel has no memory controller")
        runner, job = given.runner(), given.job(1, "tail", "/dev/zero")
        runner.start(replace(job, spec=replace(job.spec, memory_mib=32)))
        seen = until(runner, job, lambda seen: seen.status is not None)
        assert (seen.status, seen.reason) == (137, "killed: it used more memory than it may")

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"command": ("/etc/passwd",)}, "the command '/etc/passwd' could not be started as nobody: Permission"),
            ({"directory": "/no/such"}, "nobody cannot enter the directory /no/such: No such file or directory"),
            ({"command": ("no-such",), "environment": {"PATH": "/a:/b"}}, "there is no command 'no-such' in /a:/b"),
        ],
    )
    def test_what_cannot_be_started_is_said(self, given: GivenRunner, change: dict[str, object], says: str) -> None:
        runner, job = given.runner(), given.job(1, "true")
        runner.start(replace(job, spec=replace(job.spec, **change)))  # type: ignore[arg-type]
        assert says in until(runner, job, lambda seen: bool(seen.status)).reason

    def test_root_is_refused(self, given: GivenRunner) -> None:
        runner, job = given.runner(), given.job(1, "true")
        with pytest.raises(DeploymentFailed, match="root is root"):
            runner.start(replace(job, spec=replace(job.spec, user="root")))
        assert list(runner.look()) == []

    def test_one_whose_supervisor_is_killed_has_failed_and_ends(self, given: GivenRunner, be: Be) -> None:
        runner, job = given.runner(), given.job(1, "sleep", "1000")
        runner.start(job)
        seen = until(runner, job, lambda seen: bool(seen.pid))
        os.kill(seen.pid, signal.SIGKILL)
        seen = until(runner, job, lambda seen: seen.status is not None)
        assert (seen.status, seen.reason) == (GONE, UNSEEN)
        eventually(lambda: be.cgroups.pids(be.group) == [], "the command has ended too")
        runner.remove([job.container])
        assert be.cgroups.pids(be.group) == []

    def test_a_group_goes_with_its_command_and_with_what_that_left(self, given: GivenRunner, be: Be) -> None:
        runner, job = given.runner(), given.job(1, "sh", "-c", "sleep 1000 & sleep 1000 & exit 0")
        runner.start(job)
        until(runner, job, lambda seen: seen.status == 0)
        eventually(lambda: bool(runner.look()) and not be.files.exists(be.of(job.container)["cpuset"]), "it goes")
        assert be.cgroups.pids(be.group) == []
        assert [seen.status for seen in given.runner().look()] == [0], "the attempt itself is there to be noted"

    def test_many_processes_that_make_others_all_end(self, given: GivenRunner, be: Be) -> None:
        branching = "f() { sleep 0.05; f & f & wait; }; ulimit -u 300; f"
        runner, job = given.runner(), given.job(1, "bash", "-c", branching)
        runner.start(job)
        eventually(lambda: len(be.cgroups.pids(be.of(job.container))) >= 30, "there are thirty")
        runner.remove([job.container])
        assert be.cgroups.pids(be.group) == []
        assert list(runner.look()) == []

    def test_a_supervisor_that_only_begins_is_waited_for(self, given: GivenRunner, be: Be, tmp_path: Path) -> None:
        """As where a guard is killed while it starts an attempt, and its keeper comes at once."""

        begun: list[subprocess.Popen[bytes]] = []

        def begins_alone(directory: Path, lock: int) -> None:
            begun.append(subprocess.Popen(supervisor(directory, lock), pass_fds=[lock], start_new_session=True))

        runner, job = CommandRunner(be.files, tmp_path, be.name, launch=begins_alone), given.job(1, "sleep", "1000")
        runner.start(job)
        given.runner().remove([job.container])
        assert be.cgroups.pids(be.group) == []
        assert not (tmp_path / ATTEMPTS / job.container).exists()
        begun[0].wait()


class TestDockerJobs(JobRunnerContract):
    """Containers of images."""

    @pytest.fixture
    def given(self, be: Be) -> Iterator[GivenRunner]:
        runner = DockerJobs(be.name, f"/{be.name}")
        try:
            yield GivenRunner(lambda: DockerJobs(be.name, f"/{be.name}"), JobSpec("container", "debian:bookworm-slim"))
        finally:
            runner.remove([seen.container for seen in runner.look()])


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def _until_it_stands_still(be: Be, group: Group) -> None:
    name, wanted = ("freezer.state", "FROZEN") if be.cgroups.versions["freezer"] == 1 else ("cgroup.events", "frozen 1")
    eventually(lambda: wanted in be.files.read(f"{group['freezer']}/{name}"), wanted)
