"""A whole study as one file that can be sent to somebody: JSON to come back from, Parquet to analyse.

    study.json            the study, its trials with their measurements, its events
    trials.parquet        a row a trial: what it was for, what came out, a column for each parameter
    measurements.parquet  a row a repetition
    latencies.parquet     a row a request of a measured window [ms]
    artefacts/DIGEST      compose documents, traces
    application/...       what a report needs of the application: its description, compose file and workload

Values that look like secrets are taken out, and of paths only the last name is kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

import framework
from framework.compose.secrets import documents_artefact, without_secrets
from framework.config.application import FILE
from framework.config.application_file import ApplicationFile
from framework.config.checked import load
from framework.config.document import read_document
from framework.config.writing import to_yaml
from framework.errors import InputError, TailorError
from framework.model import EXTERNAL, Measurement, Study, Trial
from framework.model.documents import decode, encode
from framework.ports import ArtefactStore, StudyArchive, StudyStore
from framework.report.export import IMPORTED
from optimizer.errors import OptimizerError

FORMAT, VERSION = "tailor study", 1
LARGEST = 2**30  # bytes of one part, unpacked: what is larger is not a study
MOST_PARTS = 100_000
KEY = ("trial", "repetition", "attempt")


@dataclass(frozen=True)
class Sharing:
    """``home``: below it the descriptions of applications from elsewhere are kept."""

    store: StudyStore
    archive: StudyArchive
    artefacts: ArtefactStore
    home: Path

    def pack(self, study_id: str) -> bytes:
        """The file of a study.  Raises NotFound, and InputError where its application cannot be read."""
        study = self.store.get(study_id)
        here = None if study.testbed == EXTERNAL else study.directory
        trials, kept = self._cleaned(self.store.trials(study.id), here)
        document = {
            "format": FORMAT,
            "version": VERSION,
            "tailor": framework.__version__,
            "study": encode(_shareable(study)),
            "trials": encode([replace(one, measurements=()) for one in trials]),
            "measurements": [{**encode(one), "trial": trial.number} for trial in trials for one in trial.measurements],
            "events": list(self.store.events(study.id)),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("study.json", msgspec.json.encode(document, order="deterministic"))
            file.writestr("trials.parquet", _parquet(_trial_columns(trials)))
            file.writestr("measurements.parquet", _parquet(_measurement_columns(trials)))
            file.writestr("latencies.parquet", _parquet(_latency_columns(trials)))
            for digest, data in sorted(kept.items()):
                file.writestr(f"artefacts/{digest}", data)
            if here is not None:
                for name, text in _described(here).items():
                    file.writestr(f"application/{name}", text)
        return buffer.getvalue()

    def unpack(self, path: Path, application: Path | None = None) -> Study:
        """Record the study of such a file as it was.  Raises InputError for a file that is none, or a study that is
        here already.

        ``application``: the directory of the application here, so that the study can be resumed; without it a study
        that was not finished can be looked at, and compared, only.
        """
        try:
            with zipfile.ZipFile(path) as file:
                return self._restored(path, _Parts(path, file), application)
        except (OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{path}: {error}; allowed: a file that `tailor export` wrote") from error

    def _restored(self, path: Path, parts: _Parts, application: Path | None) -> Study:
        document = parts.document()
        try:
            study = decode(Study, document["study"])
            trials = _with_measurements(
                decode(tuple[Trial, ...], document["trials"]), document["measurements"], parts.latencies()
            )
            events: Sequence[Mapping[str, Any]] = document["events"]
            if not all(isinstance(one["at"], str) and isinstance(one["kind"], str) for one in events):
                raise TypeError("an event without its time and kind")
            if any(one.study != study.id for one in trials) or not _is_name(study.id):
                raise ValueError("trials of another study")
            digests = _digests(trials)
        except (KeyError, TypeError, ValueError, AttributeError, TailorError, OptimizerError) as error:
            raise InputError(
                f"{path}: study.json cannot be read ({type(error).__name__}: {f'{error}'[:300]})"
            ) from error
        for digest in digests:
            found = parts.read(f"artefacts/{digest}")
            if found is not None and self.artefacts.put(found) != digest:
                raise InputError(f"{path}: artefacts/{digest} is damaged: its content has another digest")
        where = application.absolute() if application is not None else self._described_here(study, parts)
        if where is not None:
            study = replace(study, plan=replace(study.plan, application=str(where)))
        self.archive.restore(study, trials, events)
        return study

    def _described_here(self, study: Study, parts: _Parts) -> Path | None:
        """Write what came of the application below ``home``."""
        names = parts.below("application/")
        if not names:
            return None
        where = self.home / IMPORTED / study.id / study.application_name
        for name in names:
            target = where / name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(parts.read(f"application/{name}") or b"")
            except OSError as error:
                raise InputError(f"cannot write {target}: {error.strerror or error}") from error
        return where

    def _cleaned(self, trials: Sequence[Trial], directory: Path | None) -> tuple[list[Trial], dict[str, bytes]]:
        """Trials whose compose documents may be sent, and all artefacts that they refer to.

        ``directory``: of the application, which they mount files of; here it becomes the current one.
        """
        kept = {m.spans: self.artefacts.get(m.spans) for one in trials for m in one.measurements if m.spans}
        changed = {"": ""}
        for digest in {one.documents for one in trials if one.documents}:
            documents = without_directory(msgspec.json.decode(self.artefacts.get(digest)), str(directory or ""))
            data = documents_artefact(documents["documents"], documents["files"])
            changed[digest] = hashlib.sha256(data).hexdigest()
            kept[changed[digest]] = data
        return [replace(one, documents=changed[one.documents]) for one in trials], kept


def without_directory(value: Any, directory: str) -> Any:
    """The same document where paths below ``directory`` are relative."""
    if isinstance(value, dict):
        return {key: without_directory(one, directory) for key, one in value.items()}
    if isinstance(value, list):
        return [without_directory(one, directory) for one in value]
    if isinstance(value, str) and directory:
        return re.sub(rf"(?<![\w./-]){re.escape(directory)}/", "./", value)  # not the end of a longer path
    return value


class _Parts:
    """What is in a file, read with care: it may come from anybody."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        if len(file.namelist()) > MOST_PARTS:
            raise InputError(f"{path}: {len(file.namelist())} parts; allowed: at most {MOST_PARTS}")
        self._path, self._file = path, file

    def read(self, name: str) -> bytes | None:
        """A part, None where there is none.  Raises InputError where it is too large."""
        try:
            with self._file.open(name) as part:
                data = part.read(LARGEST + 1)
        except KeyError:
            return None
        except (zlib.error, NotImplementedError, RuntimeError) as error:  # damaged; an unknown method; encrypted
            raise InputError(f"{self._path}: {name} cannot be unpacked ({error})") from error
        if len(data) > LARGEST:
            raise InputError(f"{self._path}: {name} is larger than {LARGEST} bytes")
        return data

    def document(self) -> Mapping[str, Any]:
        """Raises InputError where it is not a study's."""
        data = self.read("study.json")
        try:
            document = msgspec.json.decode(data or b"")
        except msgspec.DecodeError as error:
            raise InputError(f"{self._path}: study.json: {error}") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise InputError(f"{self._path}: not a study; allowed: a file that `tailor export` wrote")
        if document.get("version") != VERSION:
            raise InputError(f"{self._path}: version {document.get('version')}; allowed: {VERSION}")
        return document

    def latencies(self) -> Mapping[tuple[int, ...], np.ndarray]:
        """Samples of each (trial, repetition, attempt).  Raises InputError."""
        data = self.read("latencies.parquet")
        if data is None:
            return {}
        try:
            table = parquet.read_table(pa.BufferReader(data))
            keys = np.stack([table[name].to_numpy() for name in KEY], axis=1)
            samples = table["latency_ms"].to_numpy().astype(np.float32)
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise InputError(f"{self._path}: latencies.parquet cannot be read ({error})") from error
        if not len(keys):
            return {}
        starts = np.flatnonzero(np.any(np.diff(keys, axis=0), axis=1)) + 1
        firsts = [0, *starts.tolist()]
        return {
            tuple(int(part) for part in keys[first]): some
            for first, some in zip(firsts, np.split(samples, starts), strict=True)
        }

    def below(self, folder: str) -> list[str]:
        """Names of the parts of a folder, none of which leads out of it.  Raises InputError."""
        names = [name.removeprefix(folder) for name in self._file.namelist() if name.startswith(folder)]
        for name in names:
            if not name or "\\" in name or not all(_is_name(part) for part in PurePosixPath(name).parts):
                raise InputError(f"{self._path}: {folder}{name} is no name of a file")
        return names


def _is_name(text: str) -> bool:
    return bool(text) and text not in (".", "..") and "/" not in text and text.isprintable()


def _shareable(study: Study) -> Study:
    plan = study.plan
    initial = plan.initial if plan.initial in ("default", "random") else Path(plan.initial).name
    plan = replace(plan, application=study.application_name, initial=initial)
    return replace(study, plan=plan, machine=replace(study.machine, hostname=""))


def _described(directory: Path) -> dict[str, str]:
    """What a report needs of an application, without its secrets.  Raises FileError."""
    _, about = load(directory / FILE, ApplicationFile)
    names = [FILE, about.compose, about.workload.file]
    return {name: to_yaml(without_secrets(read_document(directory / name).data)) for name in names}


def _digests(trials: Sequence[Trial]) -> set[str]:
    found = {one.documents for one in trials} | {m.spans for one in trials for m in one.measurements}
    return {digest for digest in found if digest}


def _with_measurements(
    trials: Sequence[Trial], measurements: Sequence[Mapping[str, Any]], samples: Mapping[tuple[int, ...], np.ndarray]
) -> list[Trial]:
    by_trial: dict[int, list[Measurement]] = {}
    for document in measurements:
        one = decode(Measurement, {name: value for name, value in document.items() if name != "trial"})
        latencies = samples.get((document["trial"], one.repetition, one.attempt), np.empty(0, np.float32))
        by_trial.setdefault(document["trial"], []).append(replace(one, latencies_ms=latencies))
    return [replace(one, measurements=tuple(by_trial.get(one.number, ()))) for one in trials]


# ---------------------------------------------------------------------- tables


def _parquet(columns: Mapping[str, Sequence[Any]] | Mapping[str, np.ndarray]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.table({name: _array(values) for name, values in columns.items()}), sink, compression="zstd")
    return sink.getvalue()


def _array(values: Any) -> pa.Array:
    """A parameter whose values are of several kinds (a special value among numbers) becomes a column of JSON."""
    if isinstance(values, np.ndarray):
        return pa.array(values)
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds != {int, float}:
        values = [None if value is None else json.dumps(value) for value in values]
    return pa.array([float(v) if kinds == {int, float} and v is not None else v for v in values])


def _trial_columns(trials: Sequence[Trial]) -> dict[str, list[Any]]:
    names = ("number", "purpose", "label", "state", "value", "standard_error", "told_value", "reason", "pair", "ask",
             "started_at", "finished_at")  # fmt: skip
    columns: dict[str, list[Any]] = {name: [encode(getattr(one, name)) for one in trials] for name in names}
    for name in dict.fromkeys(name for one in trials for name in one.configuration):
        columns[f"configuration.{name}"] = [one.configuration.get(name) for one in trials]
    return columns


def _measurement_columns(trials: Sequence[Trial]) -> dict[str, list[Any]]:
    found = [(trial.number, one) for trial in trials for one in trial.measurements]
    plain = ("repetition", "attempt", "value", "requests", "failed_requests", "achieved_rps", "wanted_rps",
             "lag_p99_ms", "generator_p95_ms", "spans_created", "spans_read", "stolen_cpu", "pressure_cpu",
             "tick_us")  # fmt: skip
    columns: dict[str, list[Any]] = {"trial": [number for number, _ in found]}
    columns |= {name: [getattr(one, name) for _, one in found] for name in plain}
    columns["invalid"] = ["; ".join(one.invalid) for _, one in found]
    columns["infeasible"] = ["; ".join(one.infeasible) for _, one in found]
    for name in dict.fromkeys(name for _, one in found for name in one.quantities):
        known = [one.quantities.get(name) for _, one in found]
        for side in ("value", "low", "high"):
            columns[f"{name}.{side}"] = [None if k is None else getattr(k, side) for k in known]
    for part in dict.fromkeys(part for _, one in found for part in one.cpu):
        columns[f"cpu.{part}"] = [one.cpu.get(part) for _, one in found]
    for phase in dict.fromkeys(phase for _, one in found for phase in one.phases):
        columns[f"seconds.{phase}"] = [one.phases.get(phase) for _, one in found]
    return columns


def _latency_columns(trials: Sequence[Trial]) -> dict[str, np.ndarray]:
    found = [(trial.number, one) for trial in trials for one in trial.measurements]
    counts = [len(one.latencies_ms) for _, one in found]
    columns = {
        name: np.repeat(np.array(keys, np.int32), counts)
        for name, keys in zip(
            KEY,
            ([number for number, _ in found], [m.repetition for _, m in found], [m.attempt for _, m in found]),
            strict=True,
        )
    }
    samples = [one.latencies_ms for _, one in found]
    return {**columns, "latency_ms": np.concatenate(samples).astype(np.float32) if samples else np.empty(0, np.float32)}
