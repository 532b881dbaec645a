"""How much of the machine other processes take before a study begins, and waiting until they take less."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from framework.model import Running, Usage
from framework.testing.clock import VirtualClock
from framework.testing.examples import study
from framework.testing.pretend import PretendMachine
from framework.use_cases.quiet import share_of_others, wait_until_quiet
from tests.fakes import pretend_tailor

CORES, BEGAN_S = 2, VirtualClock().monotonic()


@dataclass
class LoadedMachine(PretendMachine):
    """Other processes take a share of both CPUs until a moment [s]."""

    share: float = 0.0
    until_s: float = 0.0

    def usage(self, running: Running) -> Usage:
        now = self.clock.monotonic() - BEGAN_S
        own = 0.5 * now  # Tailor itself does not count as another process
        return Usage(self.clock.now_ns(), {}, CORES * self.share * min(now, self.until_s) + own, 0.0, 0.0, CORES, own)


def machine(share: float, until_s: float = 1e9) -> LoadedMachine:
    return LoadedMachine(VirtualClock(), lambda configuration: 10.0, share=share, until_s=until_s)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.8])
def test_the_share_of_others(tmp_path: Path, share: float) -> None:
    opened, _ = pretend_tailor(tmp_path, machine(share))
    assert share_of_others(opened.backends, replace(study(), testbed="pretend")) == pytest.approx(share, abs=1e-6)


def test_of_a_model_there_is_none(tmp_path: Path) -> None:
    there = machine(0.8)
    there.modelled = True
    opened, _ = pretend_tailor(tmp_path, there)
    assert share_of_others(opened.backends, replace(study(), testbed="pretend")) is None


def test_waiting_ends_when_the_machine_is_quiet(tmp_path: Path) -> None:
    there = machine(0.8, until_s=60.0)
    opened, _ = pretend_tailor(tmp_path, there)
    shares: list[float] = []
    wait_until_quiet(opened.backends, replace(study(), testbed="pretend"), shares.append)
    assert 60.0 <= there.clock.monotonic() - BEGAN_S < 65.0
    assert shares[0] == pytest.approx(0.8)
