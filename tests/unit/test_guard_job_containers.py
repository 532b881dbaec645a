"""Containers of best-effort jobs: what the engine is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework.model.batch_job import BatchJob, JobSpec, JobState
from framework.testbeds.docker.engine_process import engine_process
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


def ended(status: int) -> dict[str, Any]:
    return {"State": {"Status": "exited", "Pid": 0, "ExitCode": status, "OOMKilled": False, "Error": ""}}


def test_an_attempt_that_ended_with_its_engine_was_broken_off() -> None:
    process = ["100"]
    here: dict[str, Any] = {"id": {"State": {"Status": "running", "Pid": 7}}}
    engine = Asked(here)
    jobs = DockerJobs("tailor-guard", "/tailor-guard", engine, lambda: process[0])  # type: ignore[arg-type]
    jobs.start(BatchJob(1, JobSpec("a", "i"), JobState.RUNNING, 1))
    engine.listed = [Listed("id", "tailor-job-1-1", "running", "Up", "image", {})]
    assert [(seen.pid, seen.status, seen.broken_off) for seen in jobs.look()] == [(7, None, False)]
    here["id"] = ended(137)
    assert [(seen.status, seen.broken_off) for seen in jobs.look()] == [(137, False)], "somebody killed it"
    process[0] = "200"
    assert [(seen.status, seen.broken_off) for seen in jobs.look()] == [(137, True)]
    later = DockerJobs("tailor-guard", "/tailor-guard", engine, lambda: process[0])  # type: ignore[arg-type]
    assert [seen.broken_off for seen in later.look()] == [False], "which engine began it is not known"


def test_each_start_of_an_engine_is_another_process(tmp_path: Path) -> None:
    file = tmp_path / "docker.pid"
    assert engine_process(file) == ""
    file.write_text("100")
    first = engine_process(file)
    assert engine_process(file) == first != ""
    file.write_text("200")
    second = engine_process(file)
    assert second != first
    os.utime(file, ns=(1, 1))
    assert engine_process(file) != second, "the number may be the same one, as in a container"
