"""Containers of best-effort jobs: what the engine is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from framework.errors import TestbedUnavailable
from framework.model.batch_job import BatchJob, JobSpec, JobState
from framework.testbeds.docker.engine_start import began_before, engine_start_s
from framework.testbeds.docker.job_runner import DockerJobs
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.owner import Owner


@dataclass
class Asked:
    """An engine that notes what it is asked to start."""

    here: Mapping[str, Any] = field(default_factory=dict)
    started: list[dict[str, Any]] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        return self.here.get(container)

    def containers(self, label: str) -> list[Listed]:
        assert label == "tailor.guard=tailor-guard"
        return self.listed

    def start(
        self, image: str, command: Sequence[str], name: str, owner: Owner, labels: Mapping[str, str],
        host: Mapping[str, Any], **options: Any,
    ) -> str:  # fmt: skip
        self.started.append(
            {"image": image, "command": list(command), "name": name, "owner": owner, "host": dict(host), **options}
        )
        return "id"


def test_a_job_has_a_container_without_ways_out() -> None:
    engine = Asked()
    spec = JobSpec("sort", "debian:12", ("sort", "; reboot"), "disk", memory_mib=64, environment={"A": "b"})
    DockerJobs("tailor-guard", "/tailor-guard", engine).start(BatchJob(7, spec, JobState.RUNNING, 3))  # type: ignore[arg-type]
    [asked] = engine.started
    assert asked["name"] == "tailor-job-7-3"
    assert asked["command"] == ["sort", "; reboot"], "words, which no shell reads"
    assert asked["owner"] == Owner("tailor.guard", "tailor-guard")
    host = asked["host"]
    assert host["network_mode"] == "none"
    assert host["cap_drop"] == ["ALL"]
    assert host["security_opt"] == ["no-new-privileges:true"]
    assert host["cgroup_parent"] == "/tailor-guard"
    assert host["mem_limit"] == host["memswap_limit"] == 64 * 2**20
    assert host["oom_score_adj"] == 1000
    assert asked["stop_signal"] == "SIGKILL", "an engine that starts shall neither wait for it nor let it end well"
    assert not {"binds", "mounts", "devices", "privileged", "pid_mode", "ipc_mode"} & host.keys()


def test_an_attempt_that_runs_is_not_started_again() -> None:
    engine = Asked({"tailor-job-1-1": {"State": {"Status": "running"}}})
    job = BatchJob(1, JobSpec("a", "i"), JobState.RUNNING, 1)
    DockerJobs("tailor-guard", "/tailor-guard", engine).start(job)  # type: ignore[arg-type]
    assert engine.started == []


def state(status: str, pid: int, code: int = 0) -> dict[str, Any]:
    return {"State": {"Status": status, "Pid": pid, "ExitCode": code, "StartedAt": "1970-01-01T00:01:40.123456789Z"}}


def test_an_attempt_that_began_under_an_engine_before_this_one_may_have_ended_with_it() -> None:
    here, start_s = {"id": state("running", 7)}, [50.0]
    engine = Asked(here, listed=[Listed("id", "tailor-job-1-1", "running", "Up", "image", {})])
    jobs = DockerJobs("tailor-guard", "/tailor-guard", engine, lambda: start_s[0])  # type: ignore[arg-type]
    assert [(seen.pid, seen.status, seen.engine_restarted) for seen in jobs.look()] == [(7, None, False)]
    here["id"] = state("exited", 0, 137)
    assert [(seen.status, seen.engine_restarted) for seen in jobs.look()] == [(137, False)], "somebody killed it"
    start_s[0] = 200.0
    assert [(seen.status, seen.engine_restarted) for seen in jobs.look()] == [(137, True)]


def test_an_engine_that_is_restarted_while_it_lists_attempts_is_asked_again() -> None:
    here = {"id": state("exited", 0)}  # which it shows for one that it found dead
    engine = Asked(here, listed=[Listed("id", "tailor-job-1-1", "exited", "Exited", "image", {})])
    starts = iter([0.0, 200.0, 200.0, 200.0])
    jobs = DockerJobs("tailor-guard", "/tailor-guard", engine, lambda: next(starts))  # type: ignore[arg-type]
    assert [(seen.status, seen.engine_restarted) for seen in jobs.look()] == [(0, True)]
    restless = iter(range(100))
    jobs = DockerJobs("tailor-guard", "/tailor-guard", engine, lambda: float(next(restless)))  # type: ignore[arg-type]
    with pytest.raises(TestbedUnavailable, match="restarted while it listed jobs"):
        jobs.look()


def test_an_engine_was_started_when_it_wrote_its_file(tmp_path: Path) -> None:
    file = tmp_path / "docker.pid"
    assert engine_start_s(file) == 0.0
    file.write_text("100")
    os.utime(file, (150, 150))
    assert engine_start_s(file) == 150.0
    assert began_before("1970-01-01T00:01:40.123456789Z", 150.0)
    assert not began_before("1970-01-01T00:03:20Z", 150.0)
    for odd in ("0001-01-01T00:00:00Z", "", "None", "yesterday"):
        assert not began_before(odd, 0.0)
