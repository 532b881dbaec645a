"""Images that were built from the sources of applications: listed by every clean-up, removed when asked to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from framework.bootstrap.adapters import Opened
from framework.errors import InputError
from framework.model import Application, TuneRequest
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine, larger_is_faster
from framework.use_cases.clean import clean_up
from tests.fakes import pretend_tailor

SMALL = Path(__file__).parents[1] / "cases" / "good" / "small"


class Built:
    """Images that were built; one is in use."""

    def __init__(self) -> None:
        self.names = ["tailor-built/shop-db:1", "tailor-built/shop-web:1"]

    def image_name(self, application: Application, service: str) -> str:
        return "tailor-built/none:1"

    def kept(self) -> Sequence[str]:
        return list(self.names)

    def remove(self) -> Sequence[str]:
        self.names.remove("tailor-built/shop-web:1")
        return ["tailor-built/shop-web:1"]


@pytest.fixture
def tailor(tmp_path: Path) -> Opened:
    opened, _ = pretend_tailor(tmp_path, PretendMachine(VirtualClock(), larger_is_faster), builds=Built())
    return opened


def test_they_are_listed_and_stay(tailor: Opened) -> None:
    done = clean_up(tailor.backends, tailor.runner)
    assert list(done.images) == ["tailor-built/shop-db:1", "tailor-built/shop-web:1"]
    assert list(done.removed) == []


def test_they_go_when_asked_to_but_for_those_in_use(tailor: Opened) -> None:
    done = clean_up(tailor.backends, tailor.runner, images=True)
    assert list(done.removed) == ["image tailor-built/shop-web:1"]
    assert list(done.images) == ["tailor-built/shop-db:1"]


def test_not_while_a_study_runs(tailor: Opened) -> None:
    study = tailor.studies.create(TuneRequest(SMALL, iterations=1, pairs=2, optimizer="random"))
    tailor.store.acquire(study.id, "somebody:1:else", 60.0)
    with pytest.raises(InputError, match=f"not while a study runs: {study.id}"):
        clean_up(tailor.backends, tailor.runner, images=True)
