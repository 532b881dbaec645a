"""From the parts of an exported file to the study; a value that no export writes is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from framework.errors import InputError, TailorError
from framework.model import Measurement, Study, Trial
from framework.model.documents import conform, decode
from framework.model.identity import is_plain_name, is_study_id
from framework.model.plan_document import separated
from framework.objective import rates_of
from framework.study.archive_reader import DIGEST, TABLE_BYTES, Parts
from framework.study.archive_tables import NotATable, read_latencies, window_numbers
from optimizer.errors import OptimizerError
from optimizer.space import SearchSpace

MOST_NUMBER = 2**31 - 1  # of trials and the like: the largest that every database stores
# Lengths of the database's columns, in characters.
STUDY_TEXTS = {"created_at": 40, "application_hash": 64, "testbed": 32}
TRIAL_TEXTS = {"label": 64, "started_at": 40, "finished_at": 40, "testbed": 255}

Events = Sequence[Mapping[str, Any]]
MODELS = frozenset({"twin"})  # modelled testbeds of old exports, which have no ``modelled`` field


def whole_study(path: Path, parts: Parts) -> tuple[Study, list[Trial], Events]:
    """Return the study, its trials with their measurements, and its events; write nothing.  Raises InputError."""
    document = parts.document()
    try:
        study = _study(document["study"])
        trials = _trials(study, document["trials"])
        measurements = _measurements(document["measurements"], {trial.number for trial in trials})
        events = _events(document["events"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, TailorError, OptimizerError) as error:
        reason = f"{type(error).__name__}: {f'{error}'[:300]}"
        raise InputError(f"{path}: study.json cannot be read ({reason})") from error
    samples: Mapping[tuple[int, ...], np.ndarray] = {}
    if parts.has("latencies.parquet"):
        try:
            samples = read_latencies(parts.read("latencies.parquet", TABLE_BYTES))
        except NotATable as error:
            raise InputError(f"{path}: latencies.parquet cannot be read ({error})") from error
    return study, _with_measurements(trials, measurements, samples), events


def _study(document: Any) -> Study:
    plan, decisions = separated(document["plan"])
    whole = {"modelled": document.get("testbed") in MODELS, **document, "plan": plan, "decisions": decisions}
    study = decode(Study, whole)
    conform(Study, study, "study")
    if not is_study_id(study.id):
        raise ValueError(f"study.id: {study.id[:80]!r} is no id of a study")
    name = document["plan"]["application"]
    if not is_plain_name(name) or len(name.encode()) > 255:
        raise ValueError(f"study.plan: application: {name[:80]!r} is no name of an application")
    if not is_plain_name(study.testbed):
        raise ValueError("study.testbed: no name of a testbed")
    _check_texts(study, STUDY_TEXTS)
    _check_numbers(study.best)
    SearchSpace.from_dict(study.space)
    rates_of(study.plan)
    compared = [verdict for verdict in (study.verdict, *study.rivals.values()) if verdict is not None]
    if any(at_one.rate_rps is None for verdict in compared for at_one in verdict.per_rate):
        raise ValueError("a comparison at a rate without its rate")
    return study


def _trials(study: Study, documents: Any) -> list[Trial]:
    trials = list(decode(tuple[Trial, ...], documents))
    for trial in trials:
        conform(Trial, trial, "trial")
        if trial.study != study.id:
            raise ValueError("trials of another study")
        if trial.number < 0:
            raise ValueError("a trial of a number below 0")
        _check_texts(trial, TRIAL_TEXTS)
        _check_numbers(trial.number, trial.ask, trial.pair, *trial.pending_asks)
        _check_digest(trial.documents)
    if len({trial.number for trial in trials}) < len(trials):
        raise ValueError("two trials of one number")
    return trials


def _measurements(documents: Any, numbers: Collection[int]) -> list[tuple[int, Measurement]]:
    numbered = []
    for document in documents:
        number = document["trial"]
        measurement = decode(Measurement, {name: value for name, value in document.items() if name != "trial"})
        conform(Measurement, measurement, "measurement")
        if isinstance(number, bool) or not isinstance(number, int) or number not in numbers:
            raise ValueError("a measurement of no trial")
        _check_numbers(measurement.repetition, measurement.attempt)
        _check_digest(measurement.spans)
        numbered.append((number, measurement))
    return numbered


def _events(documents: Any) -> Events:
    events: Events = documents
    for event in events:
        if not isinstance(event, dict) or not isinstance(event["at"], str) or not isinstance(event["kind"], str):
            raise TypeError("an event without its time and kind")
        if len(event["at"]) > 40 or len(event["kind"]) > 32:
            raise ValueError("an event with too long a time or kind")
    return events


def _check_texts(value: Study | Trial, most: Mapping[str, int]) -> None:
    for name, length in most.items():
        if len(getattr(value, name)) > length:
            raise ValueError(f"{name}: more than {length} characters")


def _check_numbers(*numbers: int | None) -> None:
    if any(abs(number) > MOST_NUMBER for number in numbers if number is not None):
        raise ValueError(f"a number above {MOST_NUMBER}")


def _check_digest(digest: str) -> None:
    """Raise ValueError where a text is no digest: a digest becomes the name of a file."""
    if digest and not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest[:80]!r} is no digest")


def _with_measurements(
    trials: Sequence[Trial],
    measurements: Sequence[tuple[int, Measurement]],
    samples: Mapping[tuple[int, ...], np.ndarray],
) -> list[Trial]:
    by_trial: dict[int, list[Measurement]] = {}
    for (number, measurement), window in zip(measurements, window_numbers(measurements), strict=True):
        key = number, measurement.repetition, measurement.attempt, window
        latencies = samples.get(key, np.empty(0, np.float32))
        by_trial.setdefault(number, []).append(replace(measurement, latencies_ms=latencies))
    return [replace(trial, measurements=tuple(by_trial.get(trial.number, ()))) for trial in trials]
