"""The profiler on a pretend machine whose services slow down as we say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from framework.bench import Colocation
from framework.bootstrap.adapters import Opened
from framework.errors import InputError, Interrupted, UnknownName
from framework.model import Deployment, Running, Usage
from framework.model.events import Event
from framework.model.profiling import ProfileRequest
from framework.model.spans import SpanTable
from framework.model.stressors import Stressed, Stressor, Threads, scheduled
from framework.placement.profile import UNSTRESSED_EVERY, ProfileHeader, block_of, read_profile
from framework.placement.profiler import busy, peak
from framework.placement.slowdowns import attributes, judgement, losses, prediction, pressures, ratios, slowdowns
from framework.ports.testbed import Progress
from framework.testing.clock import VirtualClock
from framework.testing.pretend import PretendMachine
from tests.fakes import pretend_tailor

SMALL = Path(__file__).resolve().parents[1] / "cases" / "good" / "small"
HARM = {"l3": 0.5, "gemm": 0.1}  # of the log latency, for each unit of intensity
PRESSURE = 0.75  # of the service, on every resource
REQUEST = ProfileRequest(
    SMALL, stressors=("l3", "gemm"), intensities=((1, 0.5), (1, 1.0)), blocks=2, window_s=10.0, rate_rps=300.0,
    domains="0-3/4-7", pairs=0,
)  # fmt: skip


@dataclass
class PretendColocation:
    """Isolation, stressors and counters: a stressor loses a third for each unit of intensity on its domain."""

    now: list[Stressor] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # of those that run now
    pinned: list[Mapping[str, str]] = field(default_factory=list)
    on_start: Callable[[int], None] = lambda count: None
    count: int = 0
    counters: bool = False

    def check(self) -> None:
        pass

    def pin(self, running: Running, cpus: Mapping[str, str]) -> None:
        self.pinned.append(cpus)

    def feel(self, intensity: float) -> None:
        """Put a pressure of this intensity on all stressors that run now."""
        self.losses = [max(loss, intensity / 3) for loss in self.losses]

    @contextmanager
    def stress(self, running: Running, stressor: Stressor) -> Iterator[Callable[[], Stressed]]:
        self.on_start(self.count)
        self.count += 1
        self.feel(stressor.intensity)
        self.now.append(stressor)
        self.losses.append(0.0)
        done: list[float] = []
        try:
            yield lambda: Stressed(90.0 * stressor.intensity * (1 - done[0]), "lines", 5)
        finally:
            self.now.pop()
            done.append(self.losses.pop())

    def threads(self, running: Running) -> Mapping[str, Threads]:
        return {"cache": {1: (1_000_000_000 * self.count, 10 * self.count)}}

    def memory_mib(self, running: Running) -> Mapping[str, float]:
        return {"cache": 64.0}

    def network_bytes(self, running: Running) -> Mapping[str, tuple[float, float]]:
        return {}

    def without_hardware(self) -> str:
        return "" if self.counters else "none here"

    @contextmanager
    def counted(self, running: Running, service: str) -> Iterator[Callable[[], Mapping[str, float]]]:
        lost = sum(2 * HARM[stressor.kind] * stressor.intensity for stressor in self.now)
        yield lambda: {"ipc": 1.5 * math.exp(-lost)} if self.counters else {}

    def pipeline(
        self, running: Running, service: str
    ) -> AbstractContextManager[Callable[[], Mapping[str, float]]] | None:
        return nullcontext(lambda: {"Backend_Bound": 0.4}) if self.counters else None


class Machine(PretendMachine):
    """Its spans are calls to the service "cache"."""

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        spans = super().read(running, start_ns, end_ns, None)
        return replace(spans, strings=[*spans.strings, "cache"], peer=np.full(len(spans), 2, np.int32))


class TwoServices(Machine):
    """Half of its spans are calls to "cache", the others to "front"."""

    def deploy(self, deployment: Deployment, progress: Progress) -> Running:
        running = super().deploy(deployment, progress)
        return replace(running, containers=dict.fromkeys(("cache", "front"), running.containers["cache"]))

    def usage(self, running: Running) -> Usage:
        return replace(super().usage(running), cpu_s={"cache": self.clock.monotonic(), "front": 0.0})

    def read(self, running: Running, start_ns: int, end_ns: int, expected: int | None) -> SpanTable:
        spans = super().read(running, start_ns, end_ns, None)
        peer = np.arange(2, len(spans) + 2, dtype=np.int32) % 2 + 2
        return replace(spans, strings=[*spans.strings[:2], "cache", "front"], peer=peer)


@dataclass
class Here:
    tailor: Opened
    machine: Machine
    colocation: PretendColocation


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    pretend = PretendColocation()

    def slowed(configuration: object) -> float:
        pretend.feel(PRESSURE)
        return 10.0 * math.exp(sum(HARM[stressor.kind] * stressor.intensity for stressor in pretend.now))

    machine = Machine(VirtualClock(), slowed, noise=0.01)
    tailor, _ = pretend_tailor(tmp_path, machine, colocation=lambda: Colocation(pretend, pretend, pretend))
    yield Here(tailor, machine, pretend)
    tailor.close()


def quiet(event: Event) -> None:
    pass


def test_slowdowns_are_what_the_machine_does(here: Here) -> None:
    profile = here.tailor.profiles.run(REQUEST, quiet)
    by = {(slowdown.stressor, slowdown.intensity): slowdown for slowdown in slowdowns(profile.windows)}
    assert set(by) == {("l3", 0.5), ("l3", 1.0), ("gemm", 0.5), ("gemm", 1.0)}
    for (stressor, intensity), slowdown in by.items():
        assert slowdown.mean == pytest.approx(math.exp(HARM[stressor] * intensity), rel=0.05)
        assert slowdown.blocks == 2
        assert slowdown.low <= slowdown.mean <= slowdown.high
    known = attributes(profile)["cache"]
    assert known["sensitivity.l3"] == pytest.approx(0.5, abs=0.05)
    assert known["sensitivity.gemm"] == pytest.approx(0.1, abs=0.05)
    assert known["latency"] > 10
    assert here.machine.cleaned[-1].startswith("tailor-profile-small-")
    assert here.colocation.pinned[-1] == {"cache": "0-3"}, "the service alone in its place"


def test_where_there_are_counters_the_scores_are_of_instructions_per_cycle(here: Here) -> None:
    without = here.tailor.profiles.run(REQUEST, quiet)
    assert without.about.without_counters == "none here"
    assert without.about.memory_mib == {"cache": 64.0}
    here.colocation.counters = True
    profile = here.tailor.profiles.run(REQUEST, quiet, again=True)
    assert profile.about.without_counters == ""
    assert [(pipeline.service, pipeline.shares) for pipeline in profile.pipelines] == [
        ("cache", {"Backend_Bound": 0.4})
    ]
    assert not without.pipelines
    assert attributes(profile)["cache"]["sensitivity.l3"] == pytest.approx(2 * HARM["l3"])
    assert read_profile(profile.to_lines(), "f") == profile
    first = replace(profile.windows[0], counters={})
    mixed = [first, *profile.windows[1:]]
    assert all(loss.ratio < math.exp(1.5 * HARM[loss.stressor]) for loss in losses(mixed)), "not for all: from latency"


def test_predictions_are_judged_by_measured_pairs(tmp_path: Path) -> None:
    pretend, extra = PretendColocation(), 0.3

    def slowed(configuration: object) -> float:
        pretend.feel(PRESSURE)
        near = pretend.pinned and list(pretend.pinned[-1].values()).count("0-3") == 2
        return 10.0 * math.exp(
            sum(HARM[stressor.kind] * stressor.intensity for stressor in pretend.now) + extra * bool(near)
        )

    tailor, _ = pretend_tailor(
        tmp_path, TwoServices(VirtualClock(), slowed), colocation=lambda: Colocation(pretend, pretend, pretend)
    )
    profile = tailor.profiles.run(replace(REQUEST, blocks=1, pairs=5), quiet, tmp_path / "p.jsonl")
    assert len(profile.pairs) == 2 * 4, "there are two pairs only"
    assert [ratio for _, _, ratio in ratios(profile.pairs)] == pytest.approx([math.exp(extra)] * 2, rel=0.01)
    judged = prediction(profile)
    assert judged is not None
    model, errors = judged
    said = PRESSURE * sum(HARM.values())
    assert model.weights == pytest.approx([extra / said] * 2, rel=0.05)
    assert errors == pytest.approx([0.0, 0.0], abs=0.02)
    assert model.slowdown("cache", ["front"]) == pytest.approx(math.exp(extra), rel=0.02)
    said_of_it = judgement(profile)
    assert said_of_it is not None
    assert said_of_it.median <= said_of_it.most <= 0.02
    assert said_of_it.harmless == pytest.approx(1 - math.exp(-extra), abs=0.01), "what predicting none is off by"
    again = tailor.profiles.run(replace(REQUEST, blocks=1, pairs=5), quiet, tmp_path / "p.jsonl")
    assert again == profile, "it was whole"
    assert judgement(replace(profile, pairs=profile.pairs[:4])) is None, "one pair cannot be left out of itself"
    tailor.close()


def test_it_goes_on_where_it_was_broken_off(here: Here, tmp_path: Path) -> None:
    whole = here.tailor.profiles.run(REQUEST, quiet, tmp_path / "whole.jsonl")

    def break_off(count: int) -> None:
        if count == here.colocation.count and count % 17 == 16:
            raise Interrupted("Ctrl-C")

    here.colocation.on_start = break_off
    target = tmp_path / "parts.jsonl"
    parts = 0
    while True:
        parts += 1
        try:
            profile = here.tailor.profiles.run(REQUEST, quiet, target)
            break
        except Interrupted:
            here.colocation.count += 1
            with target.open("a") as file:  # killed in the middle of a line
                file.write('{"window": {"serv')
    assert parts > 1
    assert sorted(window.key for window in profile.windows) == sorted(window.key for window in whole.windows)
    assert read_profile(target.read_text(), "f") == profile


def test_a_placement_goes_on_with_a_profile_that_was_broken_off(here: Here) -> None:
    """And only with that: windows that could not be measured were tried, and another profile is of something else."""
    profiles = here.tailor.profiles
    assert profiles.unfinished(REQUEST), "not begun"

    def break_off(count: int) -> None:
        if count == 9:
            raise Interrupted("Ctrl-C")

    here.colocation.on_start = break_off
    with pytest.raises(Interrupted):
        profiles.run(REQUEST, quiet)
    assert profiles.unfinished(REQUEST)
    assert not profiles.unfinished(replace(REQUEST, window_s=3.0)), "of other windows"
    assert not profiles.unfinished(replace(REQUEST, rate_rps=200.0))
    here.colocation.on_start = lambda count: None
    profiles.run(REQUEST, quiet)
    assert not profiles.unfinished(REQUEST)
    assert profiles.unfinished(replace(REQUEST, blocks=3))
    rare = replace(REQUEST, rate_rps=2.0)
    profiles.run(rare, quiet, again=True)
    assert not profiles.unfinished(rare), "no window counts, and all were tried"


def test_another_profile_is_not_mixed_with_what_is_there(here: Here, tmp_path: Path) -> None:
    target = tmp_path / "p.jsonl"
    short = replace(REQUEST, stressors=("l3",), blocks=1)
    here.tailor.profiles.run(short, quiet, target)
    with pytest.raises(InputError, match="allowed: again, or another output"):
        here.tailor.profiles.run(replace(short, rate_rps=10.0), quiet, target)
    here.tailor.profiles.run(replace(short, rate_rps=10.0), quiet, target, again=True)
    with pytest.raises(InputError, match="allowed: two"):
        here.tailor.profiles.run(replace(short, domains="3"), quiet, tmp_path / "other.jsonl")


def test_a_probe_reads_pressures_off_its_own_kind(here: Here) -> None:
    """Beside one unit of its kind a stressor loses a third, and beside the service as much as beside 0.75 of them."""
    profile = here.tailor.profiles.run(replace(REQUEST, blocks=1), quiet)
    assert {(probe.stressor, probe.beside) for probe in profile.probes} == {
        (kind, beside) for kind in ("l3", "gemm") for beside in (0.0, 0.5, 1.0)
    }
    assert pressures(profile)["cache"] == pytest.approx({"l3": PRESSURE, "gemm": PRESSURE})


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 27])
def test_a_block_is_its_own_mirror_image(count: int) -> None:
    stressors = [Stressor("l3", number + 1, 1.0, "0") for number in range(count)]
    block = block_of(stressors, 3)
    assert block == block[::-1]
    assert [sum(stressor == other for stressor in block) for other in stressors] == [2] * count
    assert block[0] is None
    gaps = [index for index, stressor in enumerate(block) if stressor is None]
    assert max(after - before for before, after in itertools.pairwise(gaps)) <= 2 * UNSTRESSED_EVERY + 1
    # Whatever drifts steadily falls on all alike: the mean position is the same.
    middles = {np.mean([i for i, stressor in enumerate(block) if stressor == other]) for other in [None, *stressors]}
    assert len(middles) == 1


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    for text in (
        "",
        "{}\n",
        "x\n",
        '{"kind": "profile", "version": 2}\n',
        '{"kind": "profile", "version": 1, "about": {}}\n',
    ):
        with pytest.raises(InputError, match="not a profile"):
            read_profile(text, "f")


def test_only_threads_that_were_there_all_the_time_count() -> None:
    waited, switches = scheduled({1: (5, 1), 2: (10, 1)}, {1: (1_000_000_005, 4), 3: (99, 99)})
    assert (waited, switches) == (1.0, 3)


def test_a_peak_is_the_most_between_two_readings() -> None:
    readings = [(0, 1.0), (1, 1.5), (2, 3.0), (2, 3.0), (4, 4.0)]  # s, CPU seconds: 0.5, 1.5, none, 0.5 cores
    usages = [Usage(int(at * 1e9), {"cache": used}, 0.0, 0.0, None, 8, 0.0) for at, used in readings]
    assert peak(usages, "cache") == 1.5
    assert peak(usages[:1], "cache") == 0.0


def test_nothing_is_deployed_where_nothing_is_missing(here: Here) -> None:
    first = here.tailor.profiles.run(REQUEST, quiet)
    deployed = len(here.machine.deployed)
    assert here.tailor.profiles.run(REQUEST, quiet) == first
    assert len(here.machine.deployed) == deployed


def test_what_cannot_be_measured_is_refused_before_anything_starts(here: Here) -> None:
    for wrong in (
        replace(REQUEST, services=("nobody",)),
        replace(REQUEST, stressors=("l4",)),
        replace(REQUEST, limits={"patience": 1.0}),
    ):
        with pytest.raises(UnknownName):
            here.tailor.profiles.run(wrong, quiet)
    assert not here.machine.deployed


def test_a_service_with_few_spans_has_no_score_and_harms_no_other(here: Here) -> None:
    """At 2 requests/s a window has 20 spans: none of them counts, and everything else goes on."""
    profile = here.tailor.profiles.run(replace(REQUEST, rate_rps=2.0, blocks=1), quiet)
    assert all("at least" in window.invalid for window in profile.windows)
    assert len({window.key for window in profile.windows}) == len(profile.windows), (
        "the same arrivals again would be no more"
    )
    assert attributes(profile) == {}
    enough = here.tailor.profiles.run(replace(REQUEST, blocks=1), quiet, again=True)
    once = [replace(window, service="rare") for window in enough.windows if window.stressor in ("", "l3")]
    mixed = replace(enough, windows=(*enough.windows, *once))
    assert set(attributes(mixed)) == {"cache"}, "one that was not measured beside gemm is left out"


def test_a_service_that_the_load_hardly_reaches_is_tried_only_where_it_is_named(here: Here) -> None:
    seldom = replace(REQUEST, rate_rps=0.5, blocks=1)
    profile = here.tailor.profiles.run(seldom, quiet)
    assert profile.about.rare() == ("cache",)
    assert not profile.windows
    assert not here.tailor.profiles.unfinished(seldom)
    assert here.tailor.profiles.run(replace(seldom, services=("cache",)), quiet).windows


def test_it_is_said_where_everything_else_had_too_few_cpus() -> None:
    about = ProfileHeader("shop", "0", {}, "0", "1", 100.0, 1.0, 5.0, 1, {"a": 0.5})
    assert not about.crowded()
    assert replace(about, busy=1.3).crowded()
    assert not replace(about, rest="1-3", busy=1.3).crowded()


def test_what_is_busy_is_read_off_the_first_and_the_last_reading() -> None:
    first = Usage(0, {}, 10.0, 0.0, None, 2, 0.0)
    later = [replace(first, at_ns=at * 10**9, host_cpu_s=10.0 + 1.5 * at) for at in (1, 2)]
    assert busy([first, *later]) == pytest.approx(1.5)
    assert busy([first]) == busy([]) == 0.0
