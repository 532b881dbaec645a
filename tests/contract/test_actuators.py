"""The guard's actuators keep their contract, on control groups of both versions and on a pretended resctrl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from framework.ports.actuator import Actuator
from framework.testbeds.host.cache_ways import CacheWays
from framework.testbeds.host.cores import Cores, Freezer
from framework.testbeds.host.disk_share import DiskShare
from framework.testbeds.host.guarded_groups import GuardedGroups
from framework.testing.actuator import ActuatorContract, ActuatorWorld
from framework.testing.pretend_cgroups import PretendKernel
from framework.testing.pretend_resctrl import INTEL
from tests.guarded_cache import GuardedCache
from tests.guarded_kernel import CacheWorld, GuardedKernel


class OnBothVersions(ActuatorContract):
    """An actuator on control groups."""

    lacks: frozenset[str]
    make: Callable[[GuardedGroups], Actuator]

    @pytest.fixture(autouse=True, params=[1, 2])
    def _version(self, request: pytest.FixtureRequest) -> None:
        self.version: int = request.param

    def world(self, directory: Path) -> ActuatorWorld:
        return GuardedKernel(self.version, directory, type(self).make, self.lacks)


class TestCores(OnBothVersions):
    lacks = frozenset({"cpuset"})

    @staticmethod
    def make(groups: GuardedGroups) -> Actuator:
        return Cores(groups, range(8))


class TestFreezer(OnBothVersions):
    lacks = frozenset({"freezer", "cpu"})

    @staticmethod
    def make(groups: GuardedGroups) -> Actuator:
        return Freezer(groups)


class TestDiskShare(OnBothVersions):
    lacks = frozenset({"blkio", "io"})

    @staticmethod
    def make(groups: GuardedGroups) -> Actuator:
        return DiskShare(groups, 100.0)


class TestCacheWays(ActuatorContract):
    def world(self, directory: Path) -> ActuatorWorld:
        kernel = PretendKernel()
        here = GuardedCache(INTEL, directory)
        return CacheWorld(here, CacheWays(kernel, here.journal(), lambda: [], lambda: []))
