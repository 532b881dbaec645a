"""Measurements of nodes: an application swept on rising numbers of cores, kept in a file and gone on with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from framework.bench import Backends, Bench, Watch
from framework.compose.fitted import fitted
from framework.compose.placed import CPUSET
from framework.config.knowledge import load_service_types, resolved
from framework.config.node_file import check_kind, load_node, write_node
from framework.config.space import parameters_of
from framework.config.twin_file import load_twin, twin_path
from framework.errors import FieldError, FieldName, InputError, Interrupted, LeaseLost, UnknownName
from framework.model import TWIN, Application, ServiceType, TuneRequest, Workload
from framework.model.cpus import read_cpus
from framework.model.events import ProfileStepStarted, RateMeasured
from framework.model.node_measurement import (
    LIMIT_MS,
    MIX,
    QUICK_NODE,
    READS,
    WINDOW_S,
    WRITES,
    NodeMeasurement,
    NodeRequest,
)
from framework.study.core_places import cpu_sets, place_of
from framework.study.locks import file_lock
from framework.study.node_sweep import MOST_CPUS, NodeCase, Probe, bench_probe, cases, measured_node
from framework.study.node_twin import on_cores, twin_probe, with_requests
from framework.study.planning import QUICK_LIMITS
from framework.study.runner import StudyRunner
from framework.study.sweep import rate_digits
from framework.study.tuned import tuned
from framework.use_cases.studies import Studies
from optimizer.space import Configuration, SearchSpace, Value

FEW = 4  # cores: with more, the generator always has one of its own
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
QUICK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
MODELLED_SIZES = (1, 2, 3, 4, 6, 8, 12, 16)
NEAR_THE_KNEE = {"stationarity_change": 1e6, "generator_lag": 1e6}
"""Near the knee, latency moves in every window; the rate that is answered tells whether the application keeps up.

How late requests were sent is judged by the limit of the sweep, not by a latency that is far below it.
"""
SAME = (
    "application", "content_hash", "testbed", "processor", "machine_cores", "warmup_s", "window_s", "factor",
    "refinements", "seed", "limit_ms", "operations", "closed_loop",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Sweeps:
    """The sweeps that a measurement lacks; ``path``: where each is kept once it is made."""

    request: NodeRequest
    application: Application
    node: NodeMeasurement
    wanted: Sequence[NodeCase]
    watch: Watch
    path: Path

    @property
    def start_rps(self) -> float:
        """First rate of the first sweep: the application's own in proportion to the cores, and half of that."""
        first = self.wanted[0]
        own = self.application.workload.rate_rps * first.cores / max(first.cores, self.node.machine_cores)
        return self.request.start_rps or max(1.0, round(own / 2, 1))

    def made(self, probe_of: Callable[[NodeCase], Probe]) -> NodeMeasurement:
        """Make them, and keep each."""
        return measured_node(
            self.node, self.wanted, probe_of, start_rps=self.start_rps, maximum_rps=self.request.maximum_rps,
            keep=lambda node: write_node(node, self.path), begin=lambda case: self.watch(ProfileStepStarted(str(case))),
            digits=rate_digits(self.application),
        )  # fmt: skip


class Nodes:
    """Measurements of nodes, kept below TAILOR_HOME; each is recorded as a study of its own too."""

    def __init__(self, backends: Backends, studies: Studies, runner: StudyRunner) -> None:
        self._backends, self._studies, self._runner = backends, studies, runner

    def path(self, application: Application) -> Path:
        """Return the path where an application's measurements are kept by default."""
        return self._backends.home / "nodes" / f"{application.name}.json"

    def measure(
        self, request: NodeRequest, watch: Watch, path: Path | None = None, *, again: bool = False
    ) -> tuple[NodeMeasurement, Path]:
        """Measure the sweeps that are not in the file yet; ``again``: begin a new one.

        Returns those that were asked for, made now or before, and the file, which may have others too.
        Raises InputError, MissingPrerequisite; Interrupted, and the sweeps that were finished are kept.
        """
        quick = QUICK_NODE if request.quick else {}
        window_s = quick.get("window_s", WINDOW_S) if request.window_s is None else request.window_s
        request = self._saturating(replace(request, **{**quick, "window_s": window_s}))
        application = self._backends.application(request.application)
        kind = self._backends.choose(request.testbed, application)
        target = path or self.path(application)
        asked = self._asked(request, application, kind.name)
        if again and target.exists():
            check_kind(target)
        with file_lock(self._backends.home, target):
            node = asked if again or not target.exists() else continued(load_node(target), asked, target)
            sizes = request.cores or sizes_of(asked, quick=request.quick)
            wanted = cases(node.asked(asked), sizes, request.runs)
            if wanted:
                write_node(node, target)  # it can be written, which is better known now than after the first sweep
                node = self._swept(_Sweeps(request, application, node, wanted, watch, target), again=again)
        return node.asked(asked), target

    def _saturating(self, request: NodeRequest) -> NodeRequest:
        """Return the request for the application's closed loop, where it has one and no rates are asked for."""
        application = self._backends.application(request.application)
        if application.closed_loop is None or application.loop == "closed":
            return request
        if self._backends.choose(request.testbed, application).modelled:  # the twin is this application's
            return request
        rates = request.reads or request.start_rps is not None or request.limit_ms is not None
        tuned_so = request.study and self._backends.store.get(request.study).directory.resolve()
        if rates or tuned_so == application.directory.resolve():
            return request
        return replace(request, application=application.closed_loop)

    def _swept(self, sweeps: _Sweeps, *, again: bool) -> NodeMeasurement:
        try:
            return self._on_twin(sweeps) if sweeps.node.testbed == TWIN else self._on_bench(sweeps)
        except LeaseLost:
            raise
        except Interrupted as error:
            kept = len(load_node(sweeps.path).points)
            how = "the same command without --again goes on" if again else "the same command goes on"
            raise Interrupted(f"stopped; {kept} sweeps are kept in {sweeps.path}, and {how}") from error

    def _asked(self, request: NodeRequest, application: Application, testbed: str) -> NodeMeasurement:
        """Return the measurement that a request asks for, without points.  Raises InputError, NotFound."""
        _check(request)
        configurations: dict[str, Mapping[str, Value]] = {"default": {}}
        if request.study:
            changes = tuned(self._backends.store, request.study, application)
            sets = f".{CPUSET}"  # the sweeps have their own
            configurations["tuned"] = {name: value for name, value in changes.items() if not name.endswith(sets)}
        machine = self._backends.machine_of(testbed, application)
        named: dict[str, tuple[str, ...]] = {READS: request.reads, WRITES: request.writes}
        kinds = {kind: names for kind, names in named.items() if names} or {str(MIX): ()}
        return NodeMeasurement(
            application=application.name,
            content_hash=application.content_hash,
            testbed=testbed,
            modelled=self._backends.kind(testbed).modelled,
            processor=machine.cpu,
            machine_cores=len(self._backends.kind(testbed).topology(application).groups("core")),
            warmup_s=request.warmup_s,
            window_s=WINDOW_S if request.window_s is None else request.window_s,
            factor=request.factor,
            refinements=request.refinements,
            seed=request.seed,
            limit_ms=LIMIT_MS if request.limit_ms is None else request.limit_ms,
            kinds=kinds,
            configurations=configurations,
            most_cores={
                arm: most_cores(application, self._types(MOST_CPUS, machine.memory_mib), changes)
                for arm, changes in configurations.items()
            },
            operations=application.external.operations if request.operations is None else request.operations,
            closed_loop=application.loop == "closed",
            study=request.study,
            at=datetime.fromtimestamp(self._backends.clock.now_ns() / 1e9, UTC).isoformat(timespec="seconds"),
        )

    def _on_twin(self, sweeps: _Sweeps) -> NodeMeasurement:
        application, node = sweeps.application, sweeps.node
        twin = load_twin(twin_path(application.directory))

        def probe_of(case: NodeCase) -> Probe:
            types = self._types(case.cores, twin.hosts[0].memory_mib)
            hosted = with_requests(on_cores(twin, case.cores), node.kinds[case.kind])
            changes = node.configurations[case.arm]
            return twin_probe(
                hosted, application, types, changes, limit_ms=node.limit_ms, seed=1_000 * (node.seed + case.run),
                watch=lambda step: sweeps.watch(RateMeasured(step)),
            )  # fmt: skip

        try:
            return sweeps.made(probe_of)
        except KeyboardInterrupt as error:
            raise Interrupted("stopped") from error

    def _on_bench(self, sweeps: _Sweeps) -> NodeMeasurement:
        application, node = sweeps.application, sweeps.node
        kind = self._backends.kind(node.testbed)
        topology = kind.topology(application)
        places = {case.cores: place_of(topology, case.cores) for case in sweeps.wanted}
        workloads = {name: selected(application.workload, names) for name, names in node.kinds.items()}
        counters = kind.colocation().counters if kind.colocation is not None else None
        study = self._studies.create(_study_request(sweeps.request, node, sweeps.start_rps))

        def measured(bench: Bench, space: SearchSpace) -> NodeMeasurement:
            def probe_of(case: NodeCase) -> Probe:
                place = places[case.cores]
                types = self._types(len(read_cpus(place.services)), bench.testbed.machine().memory_mib)
                configuration = Configuration({**cpu_sets(application, place), **node.configurations[case.arm]})
                plan = replace(study.effective_plan, seed=node.seed + case.run)
                return bench_probe(
                    replace(bench, types=types), study.id, plan, case, place, configuration, counters,
                    workloads[case.kind], node.limit_ms,
                )  # fmt: skip

            return sweeps.made(probe_of)

        return self._runner.on_bench(study, sweeps.watch, measured)

    def _types(self, cpus: int, memory_mib: int) -> Mapping[str, ServiceType]:
        """Return the knowledge base with the defaults of a machine with so many CPUs."""
        return resolved(load_service_types(self._backends.spaces), cores=cpus, memory_mib=memory_mib)


def continued(kept: NodeMeasurement, asked: NodeMeasurement, path: Path) -> NodeMeasurement:
    """Return a kept measurement with what is asked for beyond it.  Raises InputError where their conditions differ."""
    differ = [name for name in SAME if getattr(kept, name) != getattr(asked, name)]
    for name in ("kinds", "configurations"):
        before, now = getattr(kept, name), getattr(asked, name)
        differ += [f"{name} ({key})" for key in now if key in before and before[key] != now[key]]
    if kept.study and asked.study and kept.study != asked.study:
        differ.append("study")
    if differ:
        raise InputError(
            f"{path}: measured under other conditions ({', '.join(differ)}); allowed: ", FieldName("again"),
            ", or another ", FieldName("node_file"),
        )  # fmt: skip
    return replace(
        kept,
        kinds={**kept.kinds, **asked.kinds},
        configurations={**kept.configurations, **asked.configurations},
        most_cores={**kept.most_cores, **asked.most_cores},
        study=kept.study or asked.study,
    )


def sizes_of(node: NodeMeasurement, *, quick: bool) -> tuple[int, ...]:
    """Return the numbers of cores to sweep; a machine with enough of them leaves one to the load generator."""
    if node.testbed == TWIN:
        return tuple(size for size in MODELLED_SIZES if not quick or size in QUICK_SIZES)
    most = node.machine_cores - 1 if node.machine_cores >= FEW else node.machine_cores
    return tuple(sorted({size for size in (QUICK_SIZES if quick else SIZES) if size < most} | {most}))


def most_cores(
    application: Application, types: Mapping[str, ServiceType], configuration: Mapping[str, Value]
) -> dict[str, float]:
    """Return service -> cores that it can use on a machine with MOST_CPUS of them, for which ``types`` are resolved.

    Known from the service types' ``most_cores``; without the services that can use all, or of which that is not known.
    """
    limits: dict[str, float] = {}
    for service in application.services:
        kind = types.get(service.type)
        most: Value | str | None = None if kind is None else kind.most_cores
        if isinstance(most, str):
            named = {parameter.name: parameter for parameter in parameters_of(*fitted(application, types, service))}
            if most not in named:  # left to the server, or given in another way
                continue
            fixed = service.fixed.get(most, named[most].default)
            most = configuration.get(f"{service.name}.{most}", fixed)
        if isinstance(most, int | float) and 1 <= most < MOST_CPUS:
            limits[service.name] = float(most) * _replicas(application, service.name)
    return limits


def _replicas(application: Application, service: str) -> int:
    deploy = application.compose["services"].get(service, {}).get("deploy") or {}
    return int(deploy.get("replicas") or 1)


def selected(workload: Workload, names: Sequence[str]) -> Workload:
    """Return a workload with these requests of its mix alone; all where none is named.  Raises UnknownName."""
    requests = workload.document.get("requests", ())
    known = [request["name"] for request in requests]
    for name in names:
        if name not in known:
            raise UnknownName("request", name, known)
    if not names:
        return workload
    return replace(
        workload,
        document={**workload.document, "requests": [request for request in requests if request["name"] in names]},
    )


def _check(request: NodeRequest) -> None:
    if request.writes and not request.reads:
        raise InputError(FieldName("write_request"), ": allowed with ", FieldName("read_request"))
    for field, value, least in (
        ("runs", request.runs, 1), ("window_s", request.window_s or 0, 1), ("warmup_s", request.warmup_s, 0),
        ("start_rps", 1 if request.start_rps is None else request.start_rps, 1), ("factor", request.factor, 1.01),
        ("cores", min(request.cores, default=1), 1),
        ("operations", 1 if request.operations is None else request.operations, 1),
        ("limit_ms", LIMIT_MS if request.limit_ms is None else request.limit_ms, 1),
    ):  # fmt: skip
        if not least <= value < math.inf:
            raise FieldError(field, value, f"at least {least:g}")


def _study_request(request: NodeRequest, node: NodeMeasurement, start_rps: float) -> TuneRequest:
    return TuneRequest(
        request.application,
        optimizer="random",
        iterations=1,
        repetitions=1,
        warmup_s=node.warmup_s,
        window_s=node.window_s,
        rate_rps=start_rps,
        pairs=2,
        minimal=0,
        seed=node.seed,
        limits={**NEAR_THE_KNEE, **(QUICK_LIMITS if request.quick else {}), **request.limits},
        testbed=node.testbed,
        trace=False,
    )
