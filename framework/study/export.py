"""Export and import of a whole study as one zip file: JSON to import, Parquet to analyse.

    study.json            the study, its trials with their measurements, its events
    trials.parquet        a row per trial: purpose, result, a column for each parameter
    measurements.parquet  a row per repetition
    latencies.parquet     a row per request of a measured window [ms]
    artefacts/DIGEST      compose documents, traces
    application/...       the application's description, compose file and workload, for reports

Values that look like secrets are removed, and of paths only the last name is kept.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

import framework
from framework.compose.placeholders import names_in
from framework.compose.secrets import documents_artefact, without_secrets
from framework.config.application import FILE
from framework.config.application_file import ApplicationFile
from framework.config.checked import load
from framework.config.compose_files import DEFAULT_NAMES
from framework.config.document import read_document
from framework.config.reading import STUDY_BYTES, open_regular
from framework.config.writing import to_yaml
from framework.errors import InputError, NotFound, StoreError
from framework.model import EXTERNAL, Application, Study, Trial
from framework.model.documents import encode
from framework.model.plan_document import study_document
from framework.ports.store import ArtefactStore, StudyArchive, StudyStore
from framework.study.archive_reader import ARTEFACTS, FORMAT, VERSION, Parts
from framework.study.archive_study import whole_study
from framework.study.archive_tables import latency_columns, measurement_columns, parquet_of, trial_columns
from framework.study.imported import description, staged_description


@dataclass(frozen=True)
class StudyExport:
    """Exports and imports studies.

    ``home``: directory below which descriptions of imported applications lie.  ``read``: reads an application.
    """

    store: StudyStore
    archive: StudyArchive
    artefacts: ArtefactStore
    home: Path
    read: Callable[[Path], Application]

    def pack(self, study_id: str) -> bytes:
        """Return the file of a study.  Raises NotFound, and InputError where its application cannot be read."""
        study = self.store.get(study_id)
        directory = None if study.testbed == EXTERNAL else study.directory
        trials, artefacts = self._cleaned(self.store.trials(study.id), directory)
        document = {
            "format": FORMAT,
            "version": VERSION,
            "tailor": framework.__version__,
            "study": study_document(_shareable(study)),
            "trials": encode([replace(trial, measurements=()) for trial in trials]),
            "measurements": [{**encode(m), "trial": trial.number} for trial in trials for m in trial.measurements],
            "events": list(self.store.events(study.id)),
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("study.json", msgspec.json.encode(document, order="deterministic"))
            file.writestr("trials.parquet", parquet_of(trial_columns(trials)))
            file.writestr("measurements.parquet", parquet_of(measurement_columns(trials)))
            file.writestr("latencies.parquet", parquet_of(latency_columns(trials)))
            for digest, data in sorted(artefacts.items()):
                file.writestr(f"artefacts/{digest}", data)
            if directory is not None:
                for name, text in _description_files(self.read(directory)).items():
                    file.writestr(f"application/{name}", text)
        return buffer.getvalue()

    def unpack(self, path: Path, application: Path | None = None) -> Study:
        """Record the study of an exported file, and return it.

        ``application``: the application's directory on this machine; only with it can the study be resumed.  Raises
        InputError, and writes nothing, where the file is no export or a study of its id is here already.
        """
        with open_regular(path, STUDY_BYTES) as file:
            parts = Parts(path, file)
            study, trials, events = whole_study(path, parts)
            self._check_new(study)
            digests = [digest for digest in sorted(_digests(trials)) if parts.has(f"{ARTEFACTS}{digest}")]
            for digest in digests:  # checked now and read again to be written: never all of them in memory
                parts.artefact(digest)
            parts.reset_budget()
            if study.testbed == EXTERNAL:
                if application is not None or parts.description_names():
                    raise InputError(f"{path}: study {study.id} is measured elsewhere; allowed: without an application")
                return self._record(study, trials, events, parts, digests)
            if application is not None:
                study = _located(study, application.absolute())
                return self._record(study, trials, events, parts, digests)
            names, name = parts.description_names(), study.application_name
            study = _located(study, description(self.home, study.id) / name)
            if not names:
                return self._record(study, trials, events, parts, digests)
            for file_name in names:
                parts.description_file(file_name)
            with staged_description(self.home, study.id, name, names, parts.description_file) as publish:
                self._record(study, trials, events, parts, digests)
                try:
                    publish()
                except StoreError:
                    self.store.delete(study.id)
                    raise
        return study

    def _record(
        self,
        study: Study,
        trials: Sequence[Trial],
        events: Sequence[Mapping[str, Any]],
        parts: Parts,
        digests: Sequence[str],
    ) -> Study:
        for digest in digests:
            self.artefacts.put(parts.artefact(digest))
        self.archive.restore(study, trials, events)
        return study

    def _check_new(self, study: Study) -> None:
        """Raise InputError where a study of this id is here."""
        with suppress(NotFound):
            if self.store.get(study.id).id == study.id:
                raise InputError(f"study {study.id} is here already; delete it first to import it again")

    def _cleaned(self, trials: Sequence[Trial], directory: Path | None) -> tuple[list[Trial], dict[str, bytes]]:
        """Return trials whose compose documents are free of secrets, and digest -> content of all their artefacts.

        ``directory``: of the application, whose files the documents mount; paths below it become relative.
        """
        kept = {m.spans: self.artefacts.get(m.spans) for trial in trials for m in trial.measurements if m.spans}
        changed = {"": ""}
        for digest in {trial.documents for trial in trials if trial.documents}:
            documents = without_directory(msgspec.json.decode(self.artefacts.get(digest)), str(directory or ""))
            data = documents_artefact(documents["documents"], documents["files"])
            changed[digest] = hashlib.sha256(data).hexdigest()
            kept[changed[digest]] = data
        return [replace(trial, documents=changed[trial.documents]) for trial in trials], kept


def without_directory(value: Any, directory: str) -> Any:
    """Return a document in which paths below ``directory`` are relative."""
    if isinstance(value, dict):
        return {key: without_directory(item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [without_directory(item, directory) for item in value]
    if isinstance(value, str) and directory:
        return re.sub(rf"(?<![\w./-]){re.escape(directory)}/", "./", value)  # not the end of a longer path
    return value


def _shareable(study: Study) -> Study:
    plan = study.plan
    initial = plan.initial if plan.initial in ("default", "random") else Path(plan.initial).name
    plan = replace(plan, application=study.application_name, initial=initial)
    return replace(study, plan=plan, machine=replace(study.machine, hostname=""))


NOT_SHARED = "The script of the load generator is not part of an export.\n"


def _description_files(application: Application) -> dict[str, str]:
    """Return name -> text of the files of an application that reports need, without secrets: one compose file.

    The script of a load generator may hold secrets in any form, so that only its place is kept.
    Raises FileError.
    """
    document, about = load(application.directory / FILE, ApplicationFile)
    # What these keys do has been done to the compose file that is written.
    own = {k: v for k, v in document.data.items() if k not in ("compose", "env_files", "profiles", "leave_out")}
    tracing = application.tracing
    if tracing is not None and tracing.added:
        given = {key: value for key, value in own["tracing"].items() if key in ("propagation", "peers")}
        about_it = {"service": tracing.service, "port": tracing.port, "otlp_port": tracing.otlp_port}
        own["tracing"] = {**about_it, **given}
    files = {FILE: own, DEFAULT_NAMES[0]: application.compose}
    if about.workload.file is not None:
        files[about.workload.file] = read_document(application.directory / about.workload.file).data
    texts = {} if about.load.script is None else {about.load.script: NOT_SHARED}
    for service in application.services:
        for path, template in service.templates.items():  # of a template only its placeholders
            named = about.services[service.name].templates[path]
            texts[named] = "".join(f"${{{name}}}\n" for name, _ in names_in(template))
    return texts | {name: to_yaml(without_secrets(data)) for name, data in files.items()}


def _located(study: Study, directory: Path) -> Study:
    """Return the study with this directory of its application, never the one that the file names."""
    return replace(study, plan=replace(study.plan, application=str(directory)))


def _digests(trials: Sequence[Trial]) -> set[str]:
    digests = {trial.documents for trial in trials} | {m.spans for trial in trials for m in trial.measurements}
    return digests - {""}
