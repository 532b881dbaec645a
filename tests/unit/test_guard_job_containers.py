"""Containers of best-effort jobs: what the engine is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from framework.model.batch_job import BatchJob, JobSpec, JobState
from framework.testbeds.docker.job_runner import DockerJobs
from framework.testbeds.docker.owner import Owner


@dataclass
class Asked:
    """An engine that notes what it is asked to start."""

    here: Mapping[str, Any] = field(default_factory=dict)
    started: list[dict[str, Any]] = field(default_factory=list)

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        return self.here.get(container)

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
    assert not {"binds", "mounts", "devices", "privileged", "pid_mode", "ipc_mode"} & host.keys()


def test_an_attempt_that_runs_is_not_started_again() -> None:
    engine = Asked({"tailor-job-1-1": {"State": {"Status": "running"}}})
    job = BatchJob(1, JobSpec("a", "i"), JobState.RUNNING, 1)
    DockerJobs("tailor-guard", "/tailor-guard", engine).start(job)  # type: ignore[arg-type]
    assert engine.started == []
