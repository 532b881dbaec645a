"""Leases name a machine and a process: a container with its machine's name has process numbers of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from framework.errors import InputError
from framework.model import TuneRequest
from framework.model.events import Event, TrialStarted
from framework.study import lease
from framework.study.lease import Lease
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
REQUEST = TuneRequest(SMALL, rate_rps=100.0, iterations=2, repetitions=1, pairs=3, drift_every=0, minimal=0)


def test_only_dead_processes_of_this_machine_lose_their_leases(tmp_path: Path) -> None:
    tailor, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), lambda configuration: 10.0))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    own = lease._host()
    holders = {
        "dead": f"{own}:{gone.pid}",
        "alive": f"{own}:{os.getppid()}",
        "another machine": f"elsewhere:1:{gone.pid}",
        "another machine of this name": f"{own.partition(':')[0]}:0badcafe{own.partition(':')[2][8:]}:{gone.pid}",
        "another container": f"{own}0:{gone.pid}",
    }
    studies = {name: tailor.studies.create(REQUEST).id for name in holders}
    for name, holder in holders.items():
        assert tailor.store.acquire(studies[name], holder, 60)
    Lease(tailor.store).release_dead()
    left = {name for name, study in studies.items() if study in dict(tailor.store.leased())}
    assert left == {"alive", "another machine", "another machine of this name", "another container"}
    tailor.close()


def test_a_study_is_not_deleted_under_its_own_worker(tmp_path: Path) -> None:
    tailor, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), lambda configuration: 10.0))
    study = tailor.studies.create(REQUEST)
    refused: list[object] = []

    def watch(event: Event) -> None:
        if isinstance(event, TrialStarted) and not refused:
            with pytest.raises(InputError, match="stop it first") as error:
                tailor.studies.delete(study.id)
            refused.append(error)

    tailor.studies.run(study.id, watch)
    assert refused
    tailor.studies.delete(study.id)
    tailor.close()
