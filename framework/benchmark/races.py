"""Races: every optimizer on every problem with every seed, in parallel, without the runs that a file already has.

A problem is given by a line of text:

* a line of ``optimizer.benchmark.lists``;
* "replay FILE": a recorded study;
* "twin DIRECTORY": the twin of an application;
* "twin DIRECTORY critical-path [MS]": that twin, tuned only in services with at least MS (default: 1) milliseconds on
  the critical path;
* "made SEED SERVICES SHAPE": a generated application (SHAPE: chain or fan-out) with its twin;
* "table TABLE OBJECTIVE [noise PERCENT] [default good|median|bad] [answers nearest|rows]": measured configurations.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from framework.benchmark.generated import generated
from framework.benchmark.tables import measured_table
from framework.benchmark.twin_problem import TwinProblem
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.reading import RECORD_BYTES, read_text
from framework.config.space import along_the_path, search_space
from framework.config.twin_file import load_twin, twin_path
from framework.critical_path.reduce import evidence_of, reduce
from framework.errors import InputError, StoreError
from framework.model import Application, Study, Trial, TrialState
from framework.model.decisions import Thresholds
from framework.model.documents import decode, encode
from framework.model.study import display_name
from framework.model.twin import Twin
from framework.twin.times import modelled_times
from optimizer import registry
from optimizer.benchmark.lists import problem
from optimizer.benchmark.origin import code_of, identity_of
from optimizer.benchmark.problem import Problem
from optimizer.benchmark.race import Run, kind_of, run
from optimizer.benchmark.replay import Replay, Result
from optimizer.space import SearchSpace, Value

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Entry:
    """An optimizer in a race.  ``label``: its name in the tables.  ``guided``: it is given the priors."""

    optimizer: str
    label: str = ""
    options: Mapping[str, Value] = field(default_factory=dict)
    guided: bool = False

    @property
    def name(self) -> str:
        return self.label or self.optimizer


def race(
    entries: Sequence[Entry],
    problems: Sequence[str],
    seeds: Iterable[int],
    evaluations: int,
    path: Path,
    *,
    workers: int | None = None,
    keep: bool = False,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Run]:
    """Return all requested runs: those that ``path`` has (a line of JSON each), and the others, which are run now.

    A run is added to the file when it ends, so that stopping loses only the runs in progress.  A run in the file counts
    only with an equal number of evaluations (an optimizer that knows its budget depends on it) and, unless ``keep``,
    with an equal version of the optimizer and of the problem.  ``progress`` is called with the runs done and their
    total.  Raises StoreError.
    """
    code = {entry.name: _code(entry) for entry in entries}
    known = {line: problem_of(line) for line in problems}
    identities = {line: identity_of(known_problem) for line, known_problem in known.items()}
    asked = {(e.name, known[line].name, seed): (e, line, seed) for seed in seeds for line in problems for e in entries}
    origins = {key: _origin(code[entry.name], identities[line], entry) for key, (entry, line, _) in asked.items()}
    have = {
        key: stored
        for stored in (read(path) if path.exists() else ())
        if (key := (stored.optimizer, stored.problem, stored.seed)) in asked
        and len(stored.values) == evaluations + 1
        and (keep or stored.origin == origins[key])
    }
    runs = list(have.values())
    wanted = [task for key, task in asked.items() if key not in have]
    progress(0, len(wanted))
    if not wanted:
        return runs
    for variable in THREADS:  # inherited by the new processes: each has one core
        os.environ.setdefault(variable, "1")
    with ProcessPoolExecutor(workers or len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        tasks = [pool.submit(_run, entry, line, seed, evaluations) for entry, line, seed in wanted]
        try:
            for done, task in enumerate(as_completed(tasks), 1):
                ended = task.result()
                ended = replace(ended, origin=origins[ended.optimizer, ended.problem, ended.seed])
                runs.append(ended)
                _append(path, ended)
                progress(done, len(wanted))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an error or Ctrl-C, runs that wait are not begun
    return runs


def _code(entry: Entry) -> list[str]:
    """Return digests of an optimizer's code, and of the code of other optimizers that its options name."""
    kind = kind_of(entry.optimizer)
    options = {**{name: option.default for name, option in kind.options_known.items()}, **entry.options}
    named = [str(value) for value in options.values() if value in registry.names()]
    return [code_of(kind_of(name)) for name in (entry.optimizer, *named)]


def _origin(code: Sequence[str], problem: str, entry: Entry) -> str:
    options = json.dumps([code, problem, dict(sorted(entry.options.items())), entry.guided])
    return hashlib.sha256(options.encode()).hexdigest()[:16]


def _run(entry: Entry, line: str, seed: int, evaluations: int) -> Run:
    return run(
        entry.optimizer,
        problem_of(line),
        seed,
        evaluations,
        options=entry.options,
        guided=entry.guided,
        label=entry.name,
    )


def problem_of(line: str) -> Problem:
    """Return the problem of a line.  Raises InvalidInput, LibraryMissing, StoreError where a record is unreadable."""
    kind, _, rest = line.partition(" ")
    if kind == "replay":
        return replayed(Path(rest))
    if kind == "twin":
        return _twin_problem(*rest.split())
    if kind == "table":
        return measured_table(rest.split())
    return _generated_problem(*rest.split()) if kind == "made" else problem(line)


def _twin_problem(directory: str, cut: str = "none", *limits: str) -> Problem:
    """Return the problem of an application's twin.  Raises InputError, FileError."""
    application = load_application(Path(directory))
    twin = load_twin(twin_path(application.directory))
    thresholds = Thresholds()
    if limits:
        thresholds = Thresholds(path_ms=_milliseconds(*limits))
    return _on_host(" ".join(("twin", application.name, cut, *limits)), twin, application, cut, thresholds)


def _milliseconds(text: str, *more: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if more or not 0 <= value < math.inf:
        raise InputError(f"twin: found {' '.join((text, *more))}; allowed: a number of milliseconds")
    return value


def _generated_problem(seed: str, services: str, shape: str) -> Problem:
    """Return the problem of a generated application.  Raises InputError."""
    if shape not in ("chain", "fan-out") or not (seed.isdigit() and services.isdigit()):
        raise InputError(f"made: found {seed} {services} {shape}; allowed: SEED SERVICES chain or fan-out")
    twin, application = generated(int(seed), int(services), "chain" if shape == "chain" else "fan-out")
    return _on_host(twin.application, twin, application, "none", Thresholds())


def _on_host(name: str, twin: Twin, application: Application, cut: str, thresholds: Thresholds) -> Problem:
    host, rate = twin.hosts[0], application.workload.rate_rps
    types = resolved(load_service_types(), cores=host.cores, memory_mib=host.memory_mib)
    space = search_space(application, types, cores=host.cores, memory_mib=host.memory_mib)
    if cut != "none":
        tunable = {service: len(names) for service, names in space.groups.items()}
        times = modelled_times(twin, application, types, rate)
        reduction = reduce(cut, evidence_of([times]), tunable, thresholds=thresholds)
        space = space.subset(parameter.name for parameter in space.tuned if parameter.group in reduction.kept)
        space = along_the_path(space, times)
    return TwinProblem(name, twin, application, types, space, rate)


def recorded(study: Study, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return a study as a record: its space, and the drift-corrected values that its optimizer was told."""
    counted = [t for t in trials if t.purpose in ("default", "search")]
    results = [
        Result(dict(t.configuration), t.told_value, t.standard_error)
        for t in counted
        if t.told_value is not None or t.state in (TrialState.FAILED, TrialState.INFEASIBLE)
    ]
    return {
        "kind": "recorded-study",
        "version": 1,
        "study": display_name(study),
        "space": study.space,
        "results": encode(results),
    }


def replayed(path: Path) -> Replay:
    """Return the problem of a record.  Raises StoreError, InvalidInput."""
    try:
        document = json.loads(read_text(path, RECORD_BYTES))
        space = SearchSpace.from_dict(document["space"])
        results = [decode(Result, result) for result in document["results"]]
        name = f"replay of {document['study']}"
    except (InputError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{path} is no recorded study: {error}") from error
    return Replay(name, space, results)


def read(path: Path) -> Iterator[Run]:
    """Yield the runs of a file.  Raises StoreError."""
    for number, line in enumerate(read_text(path, RECORD_BYTES).splitlines(), 1):
        try:
            content: dict[str, Any] = json.loads(line)
            content["values"], content["ask_s"] = tuple(content["values"]), tuple(content["ask_s"])
            yield Run(**content)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StoreError(f"{path}:{number} is no run: {error}") from error


def _append(path: Path, ended: Run) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(asdict(ended)) + "\n")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
