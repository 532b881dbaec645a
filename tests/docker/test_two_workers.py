"""Two workers with homes of their own, as on two machines, on one PostgreSQL: many studies, one worker killed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from framework.bootstrap.adapters import Opened, opened
from framework.model import StudyState
from tests.campaign import PATIENCE_S, Campaign
from tests.databases import Server

pytestmark = [pytest.mark.docker, pytest.mark.timeout(900)]

SEEDS = range(1, 13)


def test_no_study_is_lost_nor_done_twice_when_a_worker_is_killed(tmp_path: Path) -> None:
    with Server() as server:
        campaign = Campaign(tmp_path, server.url, own_homes=True)
        try:
            campaign.start()
            studies = [campaign.launch(seed) for seed in SEEDS]
            killed = _kill_a_worker_in_a_study(campaign, studies)
            campaign.wait(studies)
        finally:
            campaign.stop()
        assert campaign.recorded(studies) == campaign.undisturbed(SEEDS)
        _check_workers(campaign, studies, killed)
        _check_artefacts(campaign, studies, server.url)


def _kill_a_worker_in_a_study(campaign: Campaign, studies: Sequence[str]) -> str:
    """Kill a worker with SIGKILL in the middle of a study and return that study.

    The worker stands still while the queue is read: a study that it had a moment ago may have ended since.
    """
    kept = opened(campaign.settings("watching", campaign.database))
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            campaign.halt("worker 0")
            had = _study_of_worker(kept, campaign.pid("worker 0"))
            done = [s for s in studies if kept.store.get(s).state is StudyState.COMPLETED]
            if len(done) >= 2 and had and had not in done and had in _log(campaign, "worker 0"):
                campaign.gone.add("worker 0")
                campaign.kill("worker 0")
                return had
            campaign.go_on("worker 0")
            assert len(done) < len(studies), "the worker was never seen in a study"
            assert time.monotonic() < deadline, f"the worker has {had or 'no study'}"
            time.sleep(0.02)
    finally:
        kept.close()


def _study_of_worker(kept: Opened, pid: int) -> str | None:
    """Return the study that a worker has, None between two."""
    own = [job.study for job in kept.queue.jobs() if job.worker and job.worker.endswith(f":{pid}")]
    return own[0] if own else None


def _log(campaign: Campaign, worker: str) -> str:
    return (campaign.directory / f"{worker}.log").read_text()


def _check_workers(campaign: Campaign, studies: Sequence[str], killed: str) -> None:
    """Both workers did something; the killed one's study went on with the other, and no other study was begun twice."""
    logs = {worker: _log(campaign, worker) for worker in campaign.names if worker != "api"}
    begun = [line for log in logs.values() for line in log.splitlines() if "study begins" in line]
    times = {study: sum(study in line for line in begun) for study in studies}
    assert killed in logs["worker 0"]
    assert killed in logs["worker 1"]
    assert {study: count for study, count in times.items() if count != 1} == {killed: 2}


def _check_artefacts(campaign: Campaign, studies: Sequence[str], url: str) -> None:
    """A machine with a home that has seen no study shows and exports all of them: what is large is in the database."""
    kept = opened(campaign.settings("fresh", url))
    try:
        for study in studies:
            documents = {trial.documents for trial in kept.store.trials(study) if trial.documents}
            assert documents
            assert all(kept.backends.artefacts.get(digest) for digest in documents)
            assert kept.sharing.pack(study)
            assert kept.results.summary(kept.store.get(study)).best is not None
    finally:
        kept.close()
    homes = [path for path in campaign.directory.glob("home of *") if (path / "artefacts").exists()]
    assert homes == [], "no artefact lies on one machine only"
