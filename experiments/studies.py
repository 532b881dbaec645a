"""Resumable studies for experiments: a study that is finished is not run again, one that was stopped goes on.

Each experiment keeps ``results/state.json`` (name -> study id) and one ``results/<name>.json`` per finished study.
The studies themselves are below TAILOR_HOME; one that is to go on elsewhere is exported to ``results/<name>.zip``.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.plots import Gain, gains_figure
from framework.bootstrap import adapters
from framework.cli.terminal import limits
from framework.config.settings import Settings
from framework.config.writing import to_yaml
from framework.errors import NotFound
from framework.model import Study, StudyState, Trial, TuneRequest
from framework.model.documents import encode
from framework.model.events import Event, ProfileWindowStarted, RepetitionFinished, TrialFinished
from framework.objective import compare_groups
from framework.report.summary_json import summary_document
from optimizer.space import SearchSpace

RESAMPLES = 2_000  # of a bootstrap


def conditions(parser: argparse.ArgumentParser) -> None:
    """Options that every experiment has: the rate, and the limits on disturbance that the machine makes necessary."""
    parser.add_argument("--rate", type=float, help="requests per second (default: the application's)")
    parser.add_argument("--limits", nargs="*", default=[], metavar="NAME=VALUE", help="such as generator_lag=0.1")


def under(given: argparse.Namespace) -> dict[str, Any]:
    """Return these options as fields of a TuneRequest."""
    return {"rate_rps": given.rate, "limits": limits(given.limits)}


def searching(parser: argparse.ArgumentParser) -> None:
    """The options of searches that claim nothing and whose bests are measured side by side in the end."""
    parser.add_argument("--duration", type=float, default=5.0)
    parser.add_argument("--warm-up", type=float, default=3.0)
    parser.add_argument("--pairs", type=int, default=10, help="groups of the comparison")
    conditions(parser)


def windows(given: argparse.Namespace) -> dict[str, Any]:
    """Return window, warm-up and these options as fields of a TuneRequest."""
    return {"window_s": given.duration, "warmup_s": given.warm_up, **under(given)}


class Experiment:
    """The studies of one experiment, in its directory."""

    def __init__(self, directory: Path) -> None:
        for ending in (signal.SIGINT, signal.SIGTERM):  # also where it was started in the background
            signal.signal(ending, signal.default_int_handler)
        self.results = directory / "results"
        self.results.mkdir(exist_ok=True)
        self.tailor = adapters.opened(Settings.from_environment())
        self._state = self.results / "state.json"

    def study(self, name: str, request: TuneRequest) -> Mapping[str, Any]:
        """The finished study ``name``: from its result file, or run now (or on, where it was stopped)."""
        path = self.results / f"{name}.json"
        if path.exists():
            return dict(json.loads(path.read_text()))
        study = self.tailor.store.get(self.id_of(name, request))
        print(f"== {name}: study {study.id} ({study.state})", flush=True)
        if study.state is not StudyState.COMPLETED:
            study = self.tailor.studies.run(study.id, report)
        document = encode(summary_document(self.tailor.results.summary(study)))
        document["trials_detail"] = self.trials(study)
        write(path, document)
        return dict(document)

    def side_by_side(
        self, name: str, application: Path, arms: Mapping[str, Path], *, pairs: int, window_s: float, **more: Any
    ) -> Mapping[str, Any]:
        """Measure named configurations in groups of fresh runs, each compared with the default; no search.

        ``arms``: name -> a configuration file, or the result file of a study whose best it is.
        """
        rivals = tuple(
            path if path.suffix == ".yaml" else self._best_as_file(arm, path, application.name)
            for arm, path in arms.items()
        )
        request = TuneRequest(
            application,
            optimizer="random",
            iterations=0,
            pairs=pairs,
            minimal=0,
            window_s=window_s,
            rivals=rivals,
            **more,
        )
        return self.study(name, request)

    def _best_as_file(self, arm: str, path: Path, application: str) -> Path:
        """Return the best of a study as a configuration file.  Ends the program where there is no such study yet."""
        if not path.is_file():
            sys.exit(f"{path}: found nothing; it is the result of a study that has to be run first")
        values = best_changes(json.loads(path.read_text()))
        return self.configuration(arm, application, values, f"best of {path.parent.parent.name}/{path.stem}")

    def configuration(self, arm: str, application: str, values: Mapping[str, Any], description: str) -> Path:
        """The file of an arm: what it changes (``service.parameter`` -> value)."""
        document = {
            "kind": "configuration",
            "version": 1,
            "description": description,
            "application": application,
            "values": dict(values),
        }
        made = self.results / f"{arm}.yaml"
        made.write_text(to_yaml(document))
        return made

    def compare(
        self,
        given: argparse.Namespace,
        application: Path,
        arms: Mapping[str, Path],
        *,
        pairs: Iterable[tuple[str, str]] = (),
        **more: Any,
    ) -> None:
        """Print and draw the arms (see ``side_by_side``) in fresh runs and what the paper found, or say which searches
        are missing.

        ``pairs``: arms that are compared with each other too, into ``results/between.md``.  A search that found nothing
        better than the default is no arm of its own.
        """
        missing = [name for name, path in arms.items() if not path.exists()]
        if missing:
            print(f"the comparison waits for {', '.join(missing)}")
            return
        different = {
            name: path
            for name, path in arms.items()
            if path.suffix == ".yaml" or json.loads(path.read_text())["changes"]
        }
        study = self.side_by_side("side-by-side", application, different, pairs=given.pairs, **windows(given), **more)
        self.show(study)
        direct = [between(study, *pair) for pair in pairs if set(pair) <= different.keys()]
        if direct:
            (self.results / "between.md").write_text("".join(f"- {line}\n" for line in direct))
            print("\n".join(direct))

    def show(self, study: Mapping[str, Any]) -> None:
        """The comparisons of a result file in words and as ``results/gains.svg``, the paper's numbers beside them."""
        print_rivals(study)
        path = self.results.parent / "expected.json"
        expected = json.loads(path.read_text()) if path.exists() else {}
        if expected:
            print(json.dumps(expected, indent=1))
        gains = {
            name.removeprefix("default to "): Gain(rival["gain"]["value"], rival["gain"]["low"], rival["gain"]["high"])
            for name, rival in study["rivals"].items()
        }
        label = "median of fresh pairs, 95 %"
        (self.results / "gains.svg").write_text(gains_figure(gains, expected.get("improvement", {}), label) + "\n")

    def sweep(self, application: Path, given: argparse.Namespace, *, limit_ms: float) -> None:
        """The default at rates that rise until p95 passes ``limit_ms``, with traces, into ``results/sweep.json``."""
        path = self.results / "sweep.json"
        if path.exists():
            return
        outcome = self.tailor.sweeps.run(
            application, report, start_rps=40.0, factor=1.5, limit_ms=limit_ms, window_s=given.duration, repetitions=1,
            maximum_rps=2_000.0, seed=1, limits=under(given)["limits"], testbed="docker",
        )  # fmt: skip
        study = max(self.tailor.store.studies(), key=lambda study: study.id)
        path.write_text(json.dumps({"study": study.id, **encode(outcome)}, indent=1) + "\n")

    def designs(self, application: Path, given: argparse.Namespace, kind: str, seed: int, size: int) -> None:
        """A Latin hypercube of ``size`` configurations at each of ``given.rates``, two repetitions of each, into
        ``results/<kind>-<rate>.json``.
        """
        for rate in given.rates:
            request = TuneRequest(
                application, optimizer="lhs", iterations=size, repetitions=2, window_s=given.duration, rate_rps=rate,
                pairs=0, seed=seed, drift_every=0, minimal=0, limits=under(given)["limits"], testbed="docker",
            )  # fmt: skip
            self.study(f"{kind}-{rate:g}", request)

    def calibrate(self, application: Path) -> None:
        """Write the twin that fits ``results/evidence.json``, which comes from the sweep and the designs of the kind
        "calibration" where it is not kept.
        """
        twins = self.tailor.twins
        evidence = self.results / "evidence.json"
        if not evidence.exists():
            kept = [self.results / "sweep.json", *sorted(self.results.glob("calibration-*.json"))]
            twins.write_evidence(application, [json.loads(path.read_text())["study"] for path in kept], evidence)
        calibration = twins.calibrate(application, [str(evidence)], lambda step: print(f"   {step}", flush=True))
        print(twins.write_twin(calibration.twin, application), calibration.twin.fit)

    def trials(self, study: Study) -> list[dict[str, Any]]:
        default = SearchSpace.from_dict(study.space).default()
        return [trial_document(trial, default) for trial in self.tailor.store.trials(study.id)]

    def id_of(self, name: str, request: TuneRequest) -> str:
        """The study that is kept under ``name``; else the one that was stopped and exported as ``results/<name>.zip``;
        else a new one made of ``request``.
        """
        known = json.loads(self._state.read_text()) if self._state.exists() else {}
        try:
            if name in known:
                return str(self.tailor.store.get(known[name]).id)
        except NotFound:  # another machine's state file: begin anew here
            pass
        stopped = self.results / f"{name}.zip"
        known[name] = (
            self._here(stopped, request.application) if stopped.exists() else self.tailor.studies.create(request).id
        )
        self._state.write_text(json.dumps(known, indent=1) + "\n")
        return str(known[name])

    def _here(self, exported: Path, application: Path) -> str:
        """The study of such a file, which may be in the store already (and further on there)."""
        with zipfile.ZipFile(exported) as parts:
            study = str(json.loads(parts.read("study.json"))["study"]["id"])
        try:
            return str(self.tailor.store.get(study).id)
        except NotFound:
            return str(self.tailor.sharing.unpack(exported, application).id)


def best_changes(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return service.parameter -> value: the changes of the best configuration in a study's result file."""
    return {f"{change['service']}.{change['parameter']}": change["value"] for change in document["changes"]}


def print_rivals(study: Mapping[str, Any]) -> None:
    """Each comparison of a result file, and the same at equal speed of the machine where that was measured."""
    equal = at_equal_speed(study)
    for name, verdict in study["rivals"].items():
        also = f"; at equal speed {equal[name]['statement']}, gain {gain(equal[name])}" if name in equal else ""
        print(f"{name}: {verdict['statement']}, gain {gain(verdict)}{also}")


def at_equal_speed(study: Mapping[str, Any]) -> Mapping[str, Any]:
    """The comparisons of a result file at equal speed, by name; none where the speed was not measured."""
    rivals: Mapping[str, Any] = (study.get("equal_speed") or {}).get("rivals", {})
    return rivals


def at_one_speed(compared: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    """Arm -> group -> log(value) at equal speed of the machine, of the groups in which every arm has a value.

    From the result file of ``side_by_side``; empty where the speed was not measured.
    """
    if not compared.get("equal_speed"):
        return {}
    slope = compared["equal_speed"]["sensitivity"]["slope"]
    arms: dict[str, dict[int, float]] = {}
    for trial in compared["trials_detail"]:
        if trial["purpose"] != "verdict" or trial["value"] is None:
            continue
        ticks = [
            measurement["tick_us"]
            for measurement in trial["measurements"]
            if measurement["value"] is not None and not measurement["invalid"]
        ]
        level = np.log(trial["value"]) - slope * np.mean(np.log(ticks))
        arms.setdefault(trial["label"], {})[trial["pair"]] = float(level)
    whole = sorted(set.intersection(*(set(groups) for groups in arms.values())))
    return {name: {group: groups[group] for group in whole} for name, groups in arms.items()}


def fresh_values(compared: Mapping[str, Any], labels: Collection[str]) -> dict[str, dict[int, float]]:
    """Arm -> group -> value, of the comparison's trials that have one, from a result file."""
    arms: dict[str, dict[int, float]] = {label: {} for label in labels}
    for trial in compared["trials_detail"]:
        if trial["purpose"] == "verdict" and trial["value"] is not None and trial["label"] in arms:
            arms[trial["label"]][trial["pair"]] = trial["value"]
    return arms


def between(compared: Mapping[str, Any], first: str, second: str) -> str:
    """The direct comparison of two arms of ``side_by_side`` in the groups that both have, and at equal speed."""
    fresh = fresh_values(compared, (first, second))
    levels = at_one_speed(compared)
    equal = {name: {group: math.exp(level) for group, level in levels.get(name, {}).items()} for name in fresh}
    said = []
    for prefix, arms in (("", fresh), ("at equal speed ", equal)):
        verdict = compare_groups(arms[first], arms[second])
        if verdict is not None:
            said.append(f"{prefix}{verdict.statement}, gain {gain(encode(verdict))}")
    return f"{first} to {second}: {'; '.join(said)}"


def gain(verdict: Mapping[str, Any]) -> str:
    """``+4.4 % [-9.2, +15.9]``: the median gain over the default with its interval."""
    value, low, high = (100 * float(verdict["gain"][side]) for side in ("value", "low", "high"))
    return f"{value:+.1f} % [{low:+.1f}, {high:+.1f}]"


def with_interval(
    statistic: Callable[[NDArray[np.float64], NDArray[np.float64]], float],
    first: NDArray[np.float64],
    second: NDArray[np.float64],
) -> dict[str, float]:
    """Return the value with its 95 % percentile bootstrap interval over configurations."""
    rng = np.random.default_rng(1)
    drawn = [
        statistic(first[places], second[places]) for places in rng.integers(len(first), size=(RESAMPLES, len(first)))
    ]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"value": round(statistic(first, second), 3), "low": round(float(low), 3), "high": round(float(high), 3)}


def trial_document(trial: Trial, default: Mapping[str, Any]) -> dict[str, Any]:
    """A trial as kept beside an experiment: what differs from the default instead of the whole configuration, and
    neither compose documents nor latency samples.
    """
    document: dict[str, Any] = encode(trial)
    changed = {name: value for name, value in document.pop("configuration").items() if value != default.get(name)}
    for measurement in document["measurements"]:
        del measurement["services"], measurement["service_cpu_s"]
    del document["images"]
    return {"configuration": changed, **document}


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write a result file: a line for each key, and one for each trial."""
    lines = []
    for key, value in document.items():
        if key == "trials_detail":
            value = [json.dumps(item) for item in value]
            lines.append(f"{json.dumps(key)}: [\n" + ",\n".join(value) + "\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def report(event: Event) -> None:
    """Print what happens, a line a trial."""
    match event:
        case TrialFinished(trial):
            value = f"{trial.value:.2f}" if trial.value is not None else trial.reason.splitlines()[0]
            print(f"   trial {trial.number} {trial.purpose} {trial.label} {trial.state}: {value}", flush=True)
        case RepetitionFinished(measurement=measurement) if measurement.invalid:
            print(f"   does not count: {'; '.join(measurement.invalid)}", file=sys.stderr, flush=True)


def report_window(event: Event) -> None:
    """Print each window of a profile."""
    match event:
        case ProfileWindowStarted(number, planned, service, beside):
            print(f"   {number} of {planned}: {service} {beside or 'alone'}", flush=True)
