"""A study as one JSON document: what ``--json`` prints and the REST API answers (docs/reference/json.md)."""

from __future__ import annotations

from typing import Any

from framework.report.summary import Level, Summary


def summary_document(found: Summary) -> dict[str, Any]:
    """The summary of a study; ``framework.model.documents.encode`` makes JSON of its values."""
    study = found.study
    return {
        "study": study.id,
        "state": study.state,
        "quick": study.plan.quick,
        "testbed": study.testbed,
        "modelled": study.modelled,
        "optimizer": study.plan.optimizer,
        "objective": found.objective,
        "unit": found.unit,
        "default": _level_document(found.default),
        "best": _level_document(found.best),
        "changes": found.changes,
        "verdict": found.verdict,
        "rivals": study.rivals,
        "equal_speed": found.equal_speed,
        "headline": found.headline,
        "trials": found.trials,
        "invalid_repetitions": found.invalid_repetitions,
        "standins": found.standins,
        "phases_s": found.phases,
        "overhead": found.overhead,
        "cpu": found.cpu,
        "reduction": found.reduction,
        "outcomes": found.outcomes,
        "front": found.front,
        "smaller": found.smaller,
        "machine": study.machine,
    }


def _level_document(level: Level | None) -> dict[str, Any] | None:
    if level is None:
        return None
    value = level.value
    return {
        "trial": level.trial,
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "count": value.count,
        "fresh": level.fresh,
    }
