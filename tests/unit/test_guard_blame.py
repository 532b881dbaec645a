"""Who slows the application down, by its profile and by what jobs demand."""

from __future__ import annotations

import math

import pytest

from framework.errors import InputError
from framework.guard.blame import blame, on_the_critical_path, with_blame
from framework.guard.policies.tailor import Tailor
from framework.guard.policies.thesis import Thesis
from framework.model.batch_job import JobSpec
from framework.placement.profile import Profile, ProfileHeader, ProfileWindow


def window(service: str, stressor: str, block: int, position: int, mean_ms: float) -> ProfileWindow:
    threads, duty = (1, 1.0) if stressor else (0, 0.0)
    return ProfileWindow(
        service, stressor, threads, duty, block, position, 100, mean_ms, mean_ms, 2 * mean_ms, 3 * mean_ms, 100.0, 0.5,
        0.0, 0.0, 1.0,
    )  # fmt: skip


def profile(path: dict[str, float]) -> Profile:
    """``store`` takes twice as long beside one thread of memory traffic, ``web`` and ``log`` nothing longer."""
    windows = []
    for service, factor in (("web", 1.0), ("store", 2.0), ("log", 3.0)):
        for position, stressor in enumerate(["", "memory-bandwidth", "l3", "l3", "memory-bandwidth", ""]):
            slowed = factor if stressor == "memory-bandwidth" and service != "log" else 1.0
            windows.append(window(service, stressor, 0, position, 5.0 * slowed))
    about = ProfileHeader("shop", "0", {}, "0", "1", 100.0, 1.0, 5.0, 1, {}, critical_path=path)
    return Profile(about, windows)


def test_a_job_is_blamed_for_what_it_adds_to_the_critical_path() -> None:
    specs = [
        JobSpec("scan", "x", demands={"memory-bandwidth": 1.0}),
        JobSpec("half", "x", kind="copy", demands={"memory-bandwidth": 0.5}),
        JobSpec("whole", "x", kind="copy", demands={"memory-bandwidth": 0.25}),
        JobSpec("sums", "x", demands={"l3": 1.0, "gemm": 2.0}),
        JobSpec("quiet", "x"),
    ]
    blamed = blame(profile({"web": 0.4, "store": 0.5, "unprofiled": 0.1}), specs)
    assert blamed == pytest.approx({"scan": 0.5, "copy": 0.5 * (math.sqrt(2) - 1), "sums": 0.0, "quiet": 0.0})


def test_only_services_with_a_share_of_the_critical_path_are_protected() -> None:
    assert on_the_critical_path(profile({"web": 0.4, "store": 0.595, "log": 0.005})) == {"web", "store"}


def test_a_profile_that_does_not_know_the_path_is_refused() -> None:
    with pytest.raises(InputError, match="does not say which services are on the critical path"):
        on_the_critical_path(profile({}))


def test_a_policy_that_blames_nobody_is_left_as_it_is() -> None:
    assert with_blame(Tailor(aim=0.7), {"scan": 0.5}) == Tailor(aim=0.7, blame={"scan": 0.5})
    assert with_blame(Thesis(), {"scan": 0.5}) == Thesis()
