"""One trial: render -> deploy -> drive load -> read traces -> evaluate.  (Ask and tell are in
framework.study.procedure.)

A trial is a configuration measured in several repetitions.  Each repetition starts from equal state: everything is
recreated, data restored, caches prepared; then warm-up and window run as one uninterrupted open load.  A study of
several request rates has a warm-up and a window at each of them, one after the other on the same deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from framework.bench import Bench, Stopwatch
from framework.compose import render
from framework.compose.secrets import documents_artefact
from framework.critical_path.service_time import service_times
from framework.errors import IncorrectAnswer, MeasurementInvalid, StoreError, Transient, TrialFailed
from framework.model import (
    Deployment,
    Hook,
    LoadPlan,
    LoadResult,
    Measurement,
    Running,
    StudyPlan,
    Trial,
    TrialState,
)
from framework.model.events import RepetitionFinished, RequestsPrepared, TrialFinished, TrialStarted
from framework.model.spans import SpanTable, packed
from framework.model.study import TrialSpec, project_name
from framework.objective import evaluate, trial_value
from framework.ports.traces import JoiningReader, TraceReader
from framework.preparation import prepared

KEPT_TRACES = 2_500
PAUSE_S = 5.0
MOST_TRIALS = 10**6
SETTLE_S = 2.0  # between two windows of a deployment: exporters and queues get empty; the warm-up does the rest
ORDER_STREAM = 29  # of the random numbers that order the windows
ATTEMPTS = 3  # measurement.md: an invalid repetition is repeated at most twice


class Controller:
    """Runs trials of one study and records every step in the store.

    ``value``: a trial's value from its valid windows, or that of a part of them; it may raise TrialFailed.
    ``complete``: adds what depends on the study's other trials (standard error, drift correction) before the record.
    """

    def __init__(
        self,
        bench: Bench,
        study: str,
        plan: StudyPlan,
        *,
        attempts: int = ATTEMPTS,
        value: Callable[[TrialSpec, Sequence[Measurement]], float] = lambda spec, windows: window_mean(windows),
        complete: Callable[[Trial], Trial] = lambda trial: trial,
    ) -> None:
        # A second attempt on a model gives the same result: no disturbance passes in between.
        self._attempts = 1 if bench.testbed.modelled else attempts
        self._bench = bench
        self._study = study
        self._plan = plan
        self._value = value
        self._complete = complete
        self._name = bench.name or bench.testbed.name
        known = bench.store.trial_page(study, 0, MOST_TRIALS)
        if plan.testbeds:
            known = [trial for trial in known if trial.testbed == self._name]
        self._finished = sum(trial.state not in (TrialState.ABORTED, TrialState.RUNNING) for trial in known)

    def begin(self, spec: TrialSpec) -> Trial:
        """Record a trial as running, and return it."""
        wanted = Trial(
            self._study, 0, spec.purpose, spec.configuration, TrialState.RUNNING,
            ask=spec.ask, pair=spec.pair, label=spec.label, testbed=self._name, pending_asks=spec.pending_asks,
        )  # fmt: skip
        trial = self._bench.store.begin_trial(wanted)
        try:
            self._bench.watch(TrialStarted(trial.number, trial.purpose))
        except BaseException:  # the study stops here: the trial does not stay as one that runs
            self._bench.store.finish_trial(replace(trial, state=TrialState.ABORTED, reason="interrupted"))
            raise
        return trial

    def run(self, spec: TrialSpec, begun: Trial | None = None) -> Trial:
        """Measure one configuration and record it; return the finished trial, with or without a value.

        ``begun``: its trial, where that was recorded as running before.
        Raises Transient, StoreError: the trial is then recorded as aborted.
        """
        bench = self._bench
        trial = begun or self.begin(spec)
        began = bench.clock.monotonic()
        outcome: dict[str, Any] = {"state": TrialState.ABORTED, "reason": "interrupted"}
        measurements: list[Measurement] = []
        try:
            for repetition in range(spec.repetitions):
                windows, running = self._blameless(trial, repetition, spec.first_seed + repetition)
                measurements += windows
                trial = self._with_images(trial, running)
                if any(window.infeasible for window in windows) or self._clear_loser(spec, windows):
                    break
            outcome = self._outcome(spec, measurements)
        except TrialFailed as error:
            outcome = {"state": TrialState.FAILED, "reason": str(error)}
        except (Transient, StoreError) as error:  # the configuration is not at fault
            outcome["reason"] = str(error)
            raise
        except MeasurementInvalid as error:
            outcome = {
                "state": TrialState.FAILED,
                "reason": f"no valid repetition in {self._attempts} attempts: {error}",
            }
        finally:
            phases = {"ask": spec.ask_s, "total": bench.clock.monotonic() - began}
            trial = replace(trial, phases=phases, measurements=tuple(measurements), **outcome)
            trial = bench.store.finish_trial(self._complete(trial) if trial.value is not None else trial)
            self._finished += trial.state is not TrialState.ABORTED
        bench.watch(TrialFinished(trial))
        return trial

    def _blameless(self, trial: Trial, repetition: int, seed: int) -> tuple[list[Measurement], Running]:
        """Measure one repetition, see ``_repeat``; raise Transient where it failed by the testbed's own fault."""
        try:
            windows, running = self._repeat(trial, repetition, seed)
        except (TrialFailed, MeasurementInvalid) as error:
            self._bench.testbed.check_itself(str(error))
            raise
        if infeasible := [reason for window in windows for reason in window.infeasible]:
            self._bench.testbed.check_itself("; ".join(infeasible))
        return windows, running

    def _repeat(self, trial: Trial, repetition: int, seed: int) -> tuple[list[Measurement], Running]:
        """Measure one repetition: a valid window at each rate, in at most a few attempts.

        An attempt is one deployment, at the rates that have no valid window yet.  An infeasible window ends the
        repetition: the trial then has no value.  Raises TrialFailed, MeasurementInvalid.
        """
        windows: list[Measurement] = []
        wanted = window_order(self._plan, seed)
        for attempt in range(self._attempts):
            if attempt:  # the disturbance of the machine may pass
                self._bench.clock.sleep(PAUSE_S * attempt)
            disturbed = {}
            for rate_rps, measurement, running in self._measure(trial, repetition, attempt, seed, wanted):
                self._bench.store.add_measurement(self._study, trial.number, measurement)
                self._bench.watch(RepetitionFinished(trial.number, measurement))
                if measurement.invalid:
                    disturbed[rate_rps] = [f"{_rate(measurement)}{reason}" for reason in measurement.invalid]
                    continue
                windows.append(measurement)
                if measurement.infeasible:
                    return windows, running
            if not disturbed:
                return windows, running
            wanted = list(disturbed)
        raise MeasurementInvalid([reason for reasons in disturbed.values() for reason in reasons])

    def _measure(
        self, trial: Trial, repetition: int, attempt: int, seed: int, rates: Sequence[float]
    ) -> Iterator[tuple[float, Measurement, Running]]:
        """Render and deploy once; measure a window at each rate, and yield it before the next one begins."""
        bench, hooks = self._bench, self._bench.application.hooks
        watch = Stopwatch(bench.clock, bench.watch)
        with watch.phase("render"):
            deployment = self.render(trial, repetition)
        with watch.phase("deploy") as step:
            running = bench.testbed.deploy(deployment, step)
        with watch.phase("prepare") as step:
            if hooks.prepare is not None:
                bench.testbed.run_hook(running, hooks.prepare)
            elif self._plan.prepare_requests and not bench.testbed.modelled:
                # Not faster than the application's own rate: a sweep goes past the rate that can be answered.
                rate_rps = min(*self._plan.measured_rates, bench.application.workload.rate_rps)
                self._send_requests(running, rate_rps, step)
            self._check(running, hooks.check_before)
        phases = dict(running.phases)  # what the deployment took counts with its first window
        for number, rate_rps in enumerate(rates):
            if number and not bench.testbed.modelled:
                with watch.phase("settle"):
                    bench.clock.sleep(SETTLE_S)
            measurement, spans = self._window(running, self._load_plan(seed, rate_rps), watch, continued=number > 0)
            is_last = number == len(rates) - 1
            if is_last and repetition == 0 and trial.purpose != "verdict":  # a verdict's passed it in their own trials
                with watch.phase("check"):
                    self._check(running, hooks.check_after)
            yield (
                rate_rps,
                replace(
                    measurement,
                    repetition=repetition,
                    attempt=attempt,
                    rate_rps=rate_rps if self._plan.rates else None,
                    phases={**phases, **watch.seconds},
                    spans=self._keep_spans(trial, repetition, spans),
                ),
                running,
            )
            phases, watch = {}, Stopwatch(bench.clock, bench.watch)

    def _send_requests(self, running: Running, rate_rps: float, step: Callable[[str], None]) -> None:
        """Send the workload's requests, as many as in the study's first repetition, which finds out how many."""
        bench = self._bench
        events = bench.store.events(self._study)
        known = next((int(event["parts"]) for event in events if event["kind"] == RequestsPrepared.kind), None)
        parts = prepared(bench, running, self._load_plan(0, rate_rps), step, known)
        if known is None:
            bench.store.add_event(self._study, RequestsPrepared(parts))

    def _window(
        self, running: Running, load_plan: LoadPlan, watch: Stopwatch, *, continued: bool
    ) -> tuple[Measurement, SpanTable]:
        """Drive the load, read the traces, evaluate.  ``continued``: the deployment had a window before."""
        bench = self._bench
        # Not 0 only where processes have had requests: in a window or a repetition before, or to be prepared.
        used = continued or self._plan.incremental or self._plan.prepare_requests
        created_before = spans_created(bench, running) if used else 0
        with watch.phase("load") as step:
            load = drive(bench, load_plan, running, step)
        with watch.phase("read"):
            created, spans = read_window(bench, load, running, created_before)
            statistics = bench.testbed.statistics(running)
        with watch.phase("evaluate"):
            measurement = evaluate(
                load,
                spans,
                application=bench.application,
                rate_rps=load_plan.rate_rps,
                created=created,
                statistics=statistics,
                traced=self._plan.trace,
                services=service_times(spans, bench.application.entry, bench.application.peers),
            )
        return measurement, spans

    def _keep_spans(self, trial: Trial, repetition: int, spans: SpanTable) -> str:
        """Keep a window's traces if they serve to calibrate a twin; return the digest of the artefact, or nothing."""
        if self._bench.testbed.modelled or repetition or trial.purpose not in ("default", "probe") or not len(spans):
            return ""
        return self._bench.artefacts.put(packed(spans, KEPT_TRACES))

    def _check(self, running: Running, hook: Hook | None) -> None:
        """Run the application's check.  Raises IncorrectAnswer: a configuration that loses data has no value."""
        if hook is None:
            return
        try:
            self._bench.testbed.run_hook(running, hook)
        except TrialFailed as error:
            raise IncorrectAnswer(f"the application's check failed: {error}") from error

    def render(self, trial: Trial, repetition: int) -> Deployment:
        """Return the deployment of a trial's repetition."""
        bench = self._bench
        labels = {
            "tailor.study": self._study,
            "tailor.application": bench.application.name,
            "tailor.trial": str(trial.number),
            "tailor.repetition": str(repetition),
            "tailor.trial-index": str(self._finished),  # the trial's number if aborted trials are not counted
        }
        return render(
            bench.application,
            bench.types,
            trial.configuration,
            project=project_name(self._study),
            labels=labels,
            fresh="changed" if self._plan.incremental else "all",
        )

    def _load_plan(self, seed: int, rate_rps: float) -> LoadPlan:
        plan = self._plan
        arrivals = (plan.seed * 1_000_003 + seed) % 2**31
        return LoadPlan(self._bench.application.workload, rate_rps, plan.warmup_s, plan.window_s, arrivals, plan.trace)

    def _clear_loser(self, spec: TrialSpec, windows: Sequence[Measurement]) -> bool:
        """Return whether a repetition is enough to see that the configuration is far worse than the incumbent."""
        return spec.give_up_above is not None and self._value(spec, windows) > spec.give_up_above

    def _outcome(self, spec: TrialSpec, measurements: Sequence[Measurement]) -> dict[str, Any]:
        """Return state, value and reason of a trial from its valid windows.  Raises TrialFailed."""
        infeasible = [f"{_rate(m)}{reason}" for m in measurements for reason in m.infeasible]
        if infeasible:
            return {"state": TrialState.INFEASIBLE, "reason": "; ".join(infeasible)}
        return {"state": TrialState.COMPLETED, "value": self._value(spec, measurements)}

    def _with_images(self, trial: Trial, running: Running) -> Trial:
        """Return the trial with its image digests, stand-ins and rendered documents."""
        if trial.images:
            return trial
        containers = running.containers.values()
        deployment = running.deployment
        documents = documents_artefact(deployment.documents, deployment.files)
        return replace(
            trial,
            images={c.service: f"{c.image}@{c.image_digest}" for c in containers},
            standins=tuple(sorted({c.image for c in containers if c.standin})),
            passed=running.passed,
            documents=self._bench.artefacts.put(documents),
        )


def spans_created(bench: Bench, running: Running) -> int:
    """Return the current count of the services' span counters; 0 where there are none."""
    return bench.traces.created(running) or 0


def drive(bench: Bench, plan: LoadPlan, running: Running, step: Callable[[str], None]) -> LoadResult:
    """Drive warm-up and window as one uninterrupted load.  Raises TrialFailed where a service did not survive it."""
    load = bench.load.run(plan, running, lambda: bench.testbed.usage(running), step)
    bench.testbed.alive(running)
    return load


def read_window(bench: Bench, load: LoadResult, running: Running, created_before: int) -> tuple[int | None, SpanTable]:
    """Return (number of spans created since ``created_before``, None where they are not counted; the window's spans).

    Both include the load generator's client spans.  Raises TracesMissing.
    """
    created = bench.traces.created(running)
    if created is not None:
        created += load.spans_created - created_before
    return created, read_spans(bench.traces, load, running, created)


def read_spans(traces: TraceReader, load: LoadResult, running: Running, expected: int | None) -> SpanTable:
    """Return a window's spans; by the ids of its requests where the generator kept its root spans.

    Raises TracesMissing.
    """
    if load.ids is not None and isinstance(traces, JoiningReader):
        return traces.join(running, load.roots)
    return traces.read(running, *load.edges_ns, expected)


def window_order(plan: StudyPlan, seed: int) -> list[float]:
    """Return the order of a repetition's windows, by their rates [requests/s], from the repetition's seed number.

    Blocks of as many successive seeds as there are rates are cyclic Latin squares of a random order: over a block each
    rate is at each place once, so that no rate always meets a cold server.  Like arrivals, the order of a repetition is
    equal for every configuration.
    """
    rates = plan.measured_rates
    block, turn = divmod(seed, len(rates))
    order = np.random.default_rng([plan.seed, block, ORDER_STREAM]).permutation(len(rates))
    return [rates[place] for place in np.roll(order, -turn)]


def window_mean(windows: Sequence[Measurement]) -> float:
    """Return the geometric mean of the windows' values: the value of a trial at one rate."""
    return trial_value([window.value for window in windows if window.value is not None])


def _rate(measurement: Measurement) -> str:
    """Return the beginning of a reason: the rate, where the study has several."""
    return "" if measurement.rate_rps is None else f"at {measurement.rate_rps:g} requests/s: "
