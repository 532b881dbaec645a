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
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

import framework
from framework.compose.secrets import documents_artefact, without_secrets
from framework.config.application import FILE
from framework.config.application_file import ApplicationFile
from framework.config.checked import load
from framework.config.document import read_document
from framework.config.reading import STUDY_BYTES, open_regular
from framework.config.writing import to_yaml
from framework.errors import InputError, NotFound, StoreError
from framework.model import EXTERNAL, Study, Trial
from framework.model.documents import encode
from framework.model.plan_document import study_document
from framework.ports.store import ArtefactStore, StudyArchive, StudyStore
from framework.study.archive_reader import ARTEFACTS, FORMAT, VERSION, Parts
from framework.study.archive_study import whole_study
from framework.study.archive_tables import latency_columns, measurement_columns, parquet_of, trial_columns
from framework.study.imported import arriving, description


@dataclass(frozen=True)
class StudyExport:
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
            "study": study_document(_shareable(study)),
            "trials": encode([replace(one, measurements=()) for one in trials]),
            "measurements": [{**encode(one), "trial": trial.number} for trial in trials for one in trial.measurements],
            "events": list(self.store.events(study.id)),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("study.json", msgspec.json.encode(document, order="deterministic"))
            file.writestr("trials.parquet", parquet_of(trial_columns(trials)))
            file.writestr("measurements.parquet", parquet_of(measurement_columns(trials)))
            file.writestr("latencies.parquet", parquet_of(latency_columns(trials)))
            for digest, data in sorted(kept.items()):
                file.writestr(f"artefacts/{digest}", data)
            if here is not None:
                for name, text in _described(here).items():
                    file.writestr(f"application/{name}", text)
        return buffer.getvalue()

    def unpack(self, path: Path, application: Path | None = None) -> Study:
        """Record the study of such a file as it was.  Raises InputError for a file that is none, or a study that is
        here already: then nothing is written.

        ``application``: the directory of the application here, so that the study can be resumed; without it a study
        that was not finished can be looked at, and compared, only.
        """
        with open_regular(path, STUDY_BYTES) as file:
            parts = Parts(path, file)
            study, trials, events = whole_study(path, parts)
            self._check_new(study)
            kept = [digest for digest in sorted(_digests(trials)) if parts.has(f"{ARTEFACTS}{digest}")]
            for digest in kept:  # read twice, and never all at once
                parts.artefact(digest)
            parts.again()
            if study.testbed == EXTERNAL:
                if application is not None or parts.description():
                    raise InputError(f"{path}: study {study.id} is measured elsewhere; allowed: without an application")
                return self._recorded(study, trials, events, parts, kept)
            if application is not None:
                study = _located(study, application.absolute())
                return self._recorded(study, trials, events, parts, kept)
            names, name = parts.description(), study.application_name
            study = _located(study, description(self.home, study.id) / name)
            if not names:
                return self._recorded(study, trials, events, parts, kept)
            for one in names:
                parts.described(one)
            with arriving(self.home, study.id, name, names, parts.described) as arrive:
                self._recorded(study, trials, events, parts, kept)
                try:
                    arrive()
                except StoreError:
                    self.store.delete(study.id)
                    raise
        return study

    def _recorded(
        self,
        study: Study,
        trials: Sequence[Trial],
        events: Sequence[Mapping[str, Any]],
        parts: Parts,
        kept: Sequence[str],
    ) -> Study:
        for digest in kept:
            self.artefacts.put(parts.artefact(digest))
        self.archive.restore(study, trials, events)
        return study

    def _check_new(self, study: Study) -> None:
        """Raises InputError where a study of this id is here."""
        with suppress(NotFound):
            if self.store.get(study.id).id == study.id:
                raise InputError(f"study {study.id} is here already; delete it first to import it again")

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


def _located(study: Study, directory: Path) -> Study:
    """The study, whose application is here: never where the file says."""
    return replace(study, plan=replace(study.plan, application=str(directory)))


def _digests(trials: Sequence[Trial]) -> set[str]:
    found = {one.documents for one in trials} | {m.spans for one in trials for m in one.measurements}
    return {digest for digest in found if digest}
