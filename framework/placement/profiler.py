"""The run of a profile: each service alone on its CPUs, in many windows without and with a stressor beside it.

    deploy -> for each service: move it to the place, everything else to the rest -> blocks of windows, mirrored

Each window is appended to the profile's file when it ends, so that an interrupted run can continue.
"""

from __future__ import annotations

import itertools
import math
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from framework.bench import Bench, Colocation
from framework.compose import render
from framework.controller import drive, read_window, spans_created
from framework.critical_path.attribution import charged
from framework.critical_path.graph import edges
from framework.critical_path.service_time import service_times
from framework.errors import FieldName, InputError, MissingPrerequisite, UnknownName
from framework.model import Deployment, LoadPlan, LoadResult, Running, Usage
from framework.model.events import ProfileStepStarted, ProfileWindowStarted
from framework.model.profiling import ProfileRequest
from framework.model.spans import KINDS, SpanTable
from framework.model.stressors import Stressed, Stressor, scheduled
from framework.objective.checks import REMEDY
from framework.objective.checks import machine as machine_checks
from framework.objective.window import machine_of, window_of
from framework.placement.profile import (
    FEWEST_SPANS,
    ColocationPair,
    Part,
    Pipeline,
    Profile,
    ProfileHeader,
    ProfileWindow,
    StressorProbe,
    line,
)
from framework.placement.schedule import intensities_of, key_of, order_of, services_of, stressors_of
from framework.preparation import prepared
from optimizer.space import Configuration

ATTEMPTS = 3  # of a window that the machine's host disturbed
SAMPLED_EVERY_S = 0.5
SERVER, CLIENT = KINDS.index("server"), KINDS.index("client")


class Profiler:
    """The run of one profile.  ``place``, ``rest``: lists of CPUs.  ``target``: the profile's file.  The project is
    named after it, so that two profiles of one application do not remove each other's containers.
    """

    def __init__(
        self, bench: Bench, colocation: Colocation, request: ProfileRequest, place: str, rest: str, target: Path
    ) -> None:
        self._bench, self._colocation, self._request = bench, colocation, request
        self._place, self._rest, self._target = place, rest, target
        self.project = f"tailor-profile-{bench.application.name}-{zlib.crc32(bytes(target.resolve())):08x}"
        self._windows: list[ProfileWindow] = []
        self._probes: list[StressorProbe] = []
        self._pairs: list[ColocationPair] = []
        self._pipelines: list[Pipeline] = []
        self._planned = self._done = 0
        self._prepared: int | None = None  # parts of the requests that precede the windows

    def check(self, kept: Profile | None) -> None:
        """Check the prerequisites.  Raises InputError where the file has another profile, MissingPrerequisite."""
        if kept is not None:
            header, application = kept.about, self._bench.application
            now = (application.name, application.content_hash, self._place, self._rest, self._rate(),
                   self._request.window_s)  # fmt: skip
            then = (header.application, header.content_hash, header.place, header.rest, header.rate_rps,
                    header.window_s)  # fmt: skip
            if now != then:
                raise InputError(
                    f"{self._target}: a profile of {then}, now it would be {now}; allowed: ", FieldName("again"),
                    ", or another ", FieldName("output"),
                )  # fmt: skip
        self._bench.testbed.check(self._bench.application)
        self._colocation.stressors.check()

    def whole(self, kept: Profile | None, machine: Mapping[str, object]) -> Profile:
        """Measure all that ``kept`` lacks, and return the whole profile.

        Peaks and probes take one deployment, then each service with missing windows takes one.  Raises UnknownName for
        a service that the load does not reach, MissingPrerequisite where there are no traces.
        """
        request = self._request
        running = None
        if kept is None:
            running = self._deployed()
            header = self._undisturbed(running, machine)
            self._target.parent.mkdir(parents=True, exist_ok=True)
            self._target.write_text(line(header))
        else:
            header = kept.about
            self._windows, self._probes, self._pairs = list(kept.windows), list(kept.probes), list(kept.pairs)
            self._pipelines = list(kept.pipelines)
            self._target.write_text(kept.to_lines())  # without an incomplete last line
        services = services_of(header, request)
        for name in services:
            if name not in header.peaks:
                raise UnknownName("service that the load reaches", name, header.peaks)
        for probe in self._missing_probes(request.intensities or intensities_of(self._place)):
            running = running or self._deployed()
            self._probe(running, *probe)
        stressors = stressors_of(request, self._place)
        self._planned = len(services) * request.blocks * len(order_of(request, "", 0, stressors)) + 4 * request.pairs
        for service in services:
            self._profile_service(service, stressors)
        self._measure_pairs(services)
        return Profile(header, tuple(self._windows), tuple(self._probes), tuple(self._pairs), tuple(self._pipelines))

    # ------------------------------------------------------------------ deployments

    def _rate(self) -> float:
        return self._request.rate_rps or self._bench.application.workload.rate_rps

    def _step(self, text: str) -> None:
        self._bench.watch(ProfileStepStarted(text))

    def _deployment(self) -> Deployment:
        labels = {"tailor.study": self.project, "tailor.application": self._bench.application.name}
        return render(
            self._bench.application, self._bench.types, Configuration({}), project=self.project, labels=labels
        )

    def _deployed(self) -> Running:
        self._step("deploying")
        self._bench.testbed.load_dataset(self._bench.application, self._deployment(), self._step)
        running = self._bench.testbed.deploy(self._deployment(), self._step)
        hook = self._bench.application.hooks.prepare
        if hook is not None:
            self._bench.testbed.run_hook(running, hook)
        elif self._bench.application.prepare_requests:
            self._send_requests(running)
        return running

    def _send_requests(self, running: Running) -> None:
        """Send the workload's requests, as many after each deployment as it took after the first."""
        bench, request, workload = self._bench, self._request, self._bench.application.workload
        rate_rps = min(self._rate(), workload.rate_rps)
        plan = LoadPlan(workload, rate_rps, request.warmup_s, request.window_s, request.seed % 2**31, False)
        self._prepared = prepared(bench, running, plan, self._step, self._prepared)

    # ------------------------------------------------------------------ windows

    def _load(self, running: Running, seed: int, cpus: str) -> tuple[LoadResult, SpanTable, int | None]:
        bench, request = self._bench, self._request
        plan = LoadPlan(
            bench.application.workload, self._rate(), request.warmup_s, request.window_s, seed % 2**31, True, cpus
        )
        before = spans_created(bench, running)
        load = drive(bench, plan, running, self._step)
        created, spans = read_window(bench, load, running, before)
        return load, spans, created

    def _undisturbed(self, running: Running, machine: Mapping[str, object]) -> ProfileHeader:
        """Measure one window with every service on all CPUs.  Raises MissingPrerequisite without traces."""
        self._step("undisturbed load: peak CPU need")
        with _sampled(lambda: self._bench.testbed.usage(running), self._bench.clock.sleep) as usages:
            _, spans, _ = self._load(running, self._request.seed, "")
        memory_mib = self._colocation.counters.memory_mib(running)
        counts = {name: len(latencies_ms(spans, name)) for name in running.containers}
        peaks = {name: peak(usages, name) for name, count in counts.items() if count}
        if not peaks:
            raise MissingPrerequisite("the spans show no service", f"see that the application is traced: {REMEDY}")
        application, request = self._bench.application, self._request
        return ProfileHeader(
            application.name, application.content_hash, machine, self._place, self._rest, self._rate(),
            request.warmup_s, request.window_s, request.seed, peaks, self._colocation.counters.without_hardware(),
            self._calls(spans), {name: counts[name] for name in peaks}, busy(usages),
            {name: memory_mib[name] for name in peaks if name in memory_mib},
            {row.service: row.share.value for row in service_times(spans, application.entry, application.peers)},
        )  # fmt: skip

    def _calls(self, spans: SpanTable) -> dict[str, dict[str, float]]:
        application = self._bench.application
        calls: dict[str, dict[str, float]] = {}
        for edge in edges(spans, charged(spans, application.entry, application.peers)):
            calls.setdefault(edge.caller, {})[edge.callee] = edge.per_request
        return calls

    def _missing_probes(self, intensities: Sequence[tuple[int, float]]) -> Sequence[tuple[Stressor, Stressor | None]]:
        """Return the missing probes: each stressor at its weakest, alone (None) or beside another of its kind."""
        known = {(probe.stressor, probe.beside) for probe in self._probes}
        threads, duty = min(intensities, key=lambda intensity: intensity[0] * intensity[1])
        missing = []
        for kind in self._request.stressors:
            for other in (None, *(Stressor(kind, t, d, self._place) for t, d in intensities)):
                if (kind, other.intensity if other else 0.0) not in known:
                    missing.append((Stressor(kind, threads, duty, self._place), other))
        return missing

    def _probe(self, running: Running, probe: Stressor, other: Stressor | None) -> None:
        """Measure a probe without any load on the application."""
        intensity = other.intensity if other else 0.0
        self._step(f"{probe.kind} beside {intensity:g} of its kind")
        self._colocation.isolation.pin(running, dict.fromkeys(running.containers, self._rest))
        with (
            self._colocation.stressors.stress(running, probe) as read,
            self._colocation.stressors.stress(running, other) if other else nullcontext(),
        ):
            self._bench.clock.sleep(self._request.window_s)
        self._keep(StressorProbe(probe.kind, intensity, read().per_second))

    def _profile_service(self, service: str, stressors: Sequence[Stressor]) -> None:
        """Measure the windows of a service that have no valid attempt yet; repeat one that the host disturbed."""
        counted = {window.key for window in self._windows if not window.invalid}
        running = None
        for block in range(self._request.blocks):
            order = order_of(self._request, service, block, stressors)
            for position, stressor in enumerate(order):
                self._done += 1
                key = key_of(service, stressor, block, position)
                if key in counted:
                    continue
                if running is None:
                    running = self._deployed()
                    rest = dict.fromkeys(running.containers, self._rest)
                    self._colocation.isolation.pin(running, rest | {service: self._place})
                self._bench.watch(ProfileWindowStarted(self._done, self._planned, service, key[1]))
                # All windows of one half of a block have equal arrivals; the halves differ.
                seed = self._request.seed * 1_000_003 + 2 * block + (2 * position >= len(order))
                for _ in range(ATTEMPTS):
                    window = self._window(running, service, stressor, block, position, seed)
                    self._keep(window)
                    if not window.invalid or window.spans < FEWEST_SPANS:  # equal arrivals give no more spans
                        break
        if running is not None and all(pipeline.service != service for pipeline in self._pipelines):
            self._pipeline(running, service)

    def _pipeline(self, running: Running, service: str) -> None:
        """Count the pipeline slots of a service in an extra window: its events are multiplexed with no others."""
        counting = self._colocation.counters.pipeline(running, service)
        if counting is None:
            return
        self._step(f"{service}: where its pipeline slots go")
        with counting as read:
            self._load(running, self._request.seed, self._rest)
        self._keep(Pipeline(service, read()))

    def _measure_pairs(self, services: Sequence[str]) -> None:
        """Measure pairs of services drawn by the seed: two windows together, and one alone before and after."""
        drawn = list(itertools.permutations(services, 2))
        chosen = np.random.default_rng(self._request.seed).permutation(len(drawn))[: self._request.pairs].tolist()
        counted = {(pair.service, pair.neighbour, pair.position) for pair in self._pairs if not pair.invalid}
        running = None
        for service, neighbour in (drawn[index] for index in chosen):
            for position, colocated in enumerate((False, True, True, False)):
                self._done += 1
                if (service, neighbour, position) in counted:
                    continue
                running = running or self._deployed()
                other = neighbour if colocated else ""
                self._bench.watch(ProfileWindowStarted(self._done, self._planned, service, other))
                place = {service: self._place} | ({neighbour: self._place} if colocated else {})
                self._colocation.isolation.pin(running, dict.fromkeys(running.containers, self._rest) | place)
                seed = zlib.crc32(f"{self._request.seed} {service} {neighbour}".encode())
                for _ in range(ATTEMPTS):
                    window = self._window(running, service, None, 0, position, seed)
                    self._keep(ColocationPair(service, neighbour, position, colocated, window.mean_ms, window.invalid))
                    if not window.invalid:
                        break

    def _keep(self, part: Part) -> None:
        """Add a part to the profile and to its file."""
        if isinstance(part, ProfileWindow):
            self._windows.append(part)
        elif isinstance(part, StressorProbe):
            self._probes.append(part)
        elif isinstance(part, ColocationPair):
            self._pairs.append(part)
        else:
            self._pipelines.append(part)
        with self._target.open("a") as file:
            file.write(line(part))

    def _window(
        self, running: Running, service: str, stressor: Stressor | None, block: int, position: int, seed: int
    ) -> ProfileWindow:
        before = self._colocation.counters.threads(running)
        with (
            self._colocation.stressors.stress(running, stressor) if stressor else nullcontext(_nothing) as read,
            self._colocation.counters.counted(running, service) as counters,
        ):
            load, spans, created = self._load(running, seed, self._rest)
        after = self._colocation.counters.threads(running)
        waited, switches = scheduled(before.get(service, {}), after.get(service, {}))
        times, window, machine = latencies_ms(spans, service), window_of(load), machine_of(load, "")
        seconds = load.warmup_s + load.window_s
        invalid = [*machine_checks(machine, self._bench.application.limits)]
        if created is not None and len(spans) < 0.99 * created:
            invalid.append(f"{created - len(spans)} of {created} spans are missing")
        if len(times) < FEWEST_SPANS:
            invalid.append(f"{len(times)} spans of the service; at least {FEWEST_SPANS} are needed")
        p50, p95, p99 = np.quantile(times, (0.5, 0.95, 0.99)).tolist() if len(times) else (math.nan,) * 3
        return ProfileWindow(
            service, stressor.kind if stressor else "", stressor.threads if stressor else 0,
            stressor.duty if stressor else 0.0, block, position, len(times),
            float(times.mean()) if len(times) else math.nan, p50, p95, p99, window.completed / window.seconds,
            (machine.service_cpu_s.get(service, math.nan)) / window.seconds, waited / seconds, switches / seconds,
            read().per_second, "; ".join(invalid), counters(),
        )  # fmt: skip


def _nothing() -> Stressed:
    return Stressed(0.0, "", 0)


def latencies_ms(spans: SpanTable, service: str) -> NDArray[np.float64]:
    """Return the durations in ms of a service's server spans; of the calls to it where it sends none (a cache)."""
    if service not in spans.strings:
        return np.empty(0)
    name = spans.strings.index(service)
    chosen = (spans.service == name) & (spans.kind == SERVER)
    if not chosen.any():
        chosen = (spans.peer == name) & (spans.kind == CLIENT)
    times: NDArray[np.float64] = (spans.end_ns - spans.start_ns)[chosen] / 1e6
    return times


def peak(usages: Sequence[Usage], service: str) -> float:
    """Return the most cores that a service used between two successive readings."""
    rates = [
        (after.cpu_s[service] - before.cpu_s[service]) / ((after.at_ns - before.at_ns) / 1e9)
        for before, after in itertools.pairwise(usages)
        if after.at_ns > before.at_ns
    ]
    return max(rates, default=0.0)


def busy(usages: Sequence[Usage]) -> float:
    """Return the mean number of busy CPUs of the whole machine over the readings."""
    if len(usages) < 2 or usages[-1].at_ns <= usages[0].at_ns:
        return 0.0
    first, last = usages[0], usages[-1]
    return (last.host_cpu_s - first.host_cpu_s) / ((last.at_ns - first.at_ns) / 1e9)


@contextmanager
def _sampled(read: Callable[[], Usage], sleep: Callable[[float], None]) -> Iterator[list[Usage]]:
    """Read the CPU counters repeatedly while the block runs; yield the list of readings."""
    readings: list[Usage] = []
    over = threading.Event()

    def sample() -> None:
        while not over.is_set():
            readings.append(read())
            sleep(SAMPLED_EVERY_S)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield readings
    finally:
        over.set()
        thread.join()
