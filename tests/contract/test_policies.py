"""Every policy of the guard does what its contract says."""

from __future__ import annotations

from framework.guard.policies.heracles import Heracles
from framework.guard.policies.koordinator import Koordinator
from framework.guard.policies.off import Off
from framework.guard.policies.pid import Pid
from framework.guard.policies.sideloader import Sideloader
from framework.guard.policies.static import Static
from framework.guard.policies.tailor import Tailor
from framework.guard.policies.thesis import Thesis
from framework.guard.policy import POLICIES, Policy
from framework.testing.policy import PolicyContract


class TestOff(PolicyContract):
    watches_latency = False

    def make(self) -> Policy:
        return Off()


class TestStatic(PolicyContract):
    watches_latency = False

    def make(self) -> Policy:
        return Static(cores=3)


class TestThesis(PolicyContract):
    def make(self) -> Policy:
        return Thesis()


class TestHeracles(PolicyContract):
    def make(self) -> Policy:
        return Heracles()


class TestKoordinator(PolicyContract):
    watches_latency = False

    def make(self) -> Policy:
        return Koordinator()


class TestSideloader(PolicyContract):
    def make(self) -> Policy:
        return Sideloader()


class TestPid(PolicyContract):
    def make(self) -> Policy:
        return Pid()


class TestTailor(PolicyContract):
    def make(self) -> Policy:
        return Tailor()


def test_each_policy_has_a_file_and_a_test_of_its_contract() -> None:
    tested = {kit.make(kit()).__class__ for kit in PolicyContract.__subclasses__()}
    assert set(POLICIES.own().values()) == tested
    assert sorted(POLICIES.own()) == sorted(
        ("off", "static", "thesis", "heracles", "koordinator", "sideloader", "pid", "tailor")
    )
