"""Conversion of studies, trials and measurements to rows of their tables, and back."""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from framework.model import Machine, Measurement, Study, StudyPlan, StudyState, Trial, Verdict
from framework.model.decisions import StudyDecisions
from framework.model.documents import decode, encode
from framework.ports.store import ArtefactStore
from framework.store.schema import trials

TRIAL_COLUMNS = [column.name for column in trials.columns]


def study_row(study: Study) -> dict[str, Any]:
    return {
        "id": study.id,
        "created_at": study.created_at,
        "state": study.state.value,
        "message": study.message,
        "plan": encode(study.plan),
        "application_hash": study.application_hash,
        "space": encode(study.space),
        "machine": encode(study.machine),
        "versions": encode(study.versions),
        "testbed": study.testbed,
        "modelled": study.modelled,
        "best": study.best,
        "verdict": encode(study.verdict),
        "rivals": encode(study.rivals),
        "decisions": encode(study.decisions),
    }


def study_of(row: sa.Row[Any]) -> Study:
    return Study(
        id=row.id,
        created_at=row.created_at,
        state=StudyState(row.state),
        plan=decode(StudyPlan, row.plan),
        application_hash=row.application_hash,
        space=row.space,
        machine=decode(Machine, row.machine),
        versions=row.versions,
        testbed=row.testbed,
        best=row.best,
        verdict=decode(Verdict, row.verdict) if row.verdict else None,
        rivals={name: decode(Verdict, document) for name, document in row.rivals.items()},
        message=row.message,
        modelled=row.modelled,
        decisions=decode(StudyDecisions, row.decisions),
    )


def trial_row(trial: Trial) -> dict[str, Any]:
    return {name: encode(getattr(trial, name)) for name in TRIAL_COLUMNS}


def trial_of(row: sa.Row[Any], repetitions: tuple[Measurement, ...] = ()) -> Trial:
    document = {name: getattr(row, name) for name in TRIAL_COLUMNS}
    return replace(decode(Trial, document), measurements=repetitions)


def measurement_row(study: str, trial: int, measurement: Measurement, latencies: str) -> dict[str, Any]:
    """Return the row of a measurement.  ``latencies``: digest of the artefact with its samples, empty for none."""
    return {
        "study": study,
        "trial": trial,
        "repetition": measurement.repetition,
        "attempt": measurement.attempt,
        "document": encode(measurement),
        "latencies": latencies,
    }


def measurement_of(row: sa.Row[Any], artefacts: ArtefactStore) -> Measurement:
    """Return the measurement of a row, with its samples where they are kept."""
    measurement = decode(Measurement, row.document)
    if not row.latencies:
        return measurement
    samples = np.frombuffer(zlib.decompress(artefacts.get(row.latencies)), dtype="<f4")
    return replace(measurement, latencies_ms=samples.astype(np.float32))


def keep_latencies(artefacts: ArtefactStore, measurement: Measurement) -> str:
    """Keep a measurement's samples; return the digest of their artefact, empty where there are none."""
    samples = measurement.latencies_ms.astype("<f4").tobytes()
    return artefacts.put(zlib.compress(samples)) if samples else ""
