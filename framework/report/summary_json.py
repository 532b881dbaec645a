"""A study as one JSON document, which ``--json`` prints and the REST API returns (docs/reference/json.md)."""

from __future__ import annotations

from typing import Any

from framework.report.recommendation import document
from framework.report.search_model import search_model_document
from framework.report.summary import Level, Summary


def summary_document(summary: Summary) -> dict[str, Any]:
    """Return the document of a study; ``framework.model.documents.encode`` makes JSON of its values."""
    study = summary.study
    return {
        "study": study.id,
        "state": study.state,
        "quick": study.plan.quick,
        "testbed": study.testbed,
        "modelled": study.modelled,
        "optimizer": study.plan.optimizer,
        "objective": summary.objective,
        "unit": summary.unit,
        "default": _level_document(summary.default),
        "best": _level_document(summary.best),
        "changes": summary.changes,
        "recommended": document(summary.recommended),
        "verdict": summary.verdict,
        "rivals": study.rivals,
        "equal_speed": summary.equal_speed,
        "headline": summary.headline,
        "trials": summary.trials,
        "invalid_repetitions": summary.invalid_repetitions,
        "loop": summary.loop or "open",
        "differences": summary.differences,
        "standins": summary.standins,
        "phases_s": summary.phases,
        "overhead": summary.overhead,
        "cpu": summary.cpu,
        "reduction": summary.reduction,
        "outcomes": summary.outcomes,
        "front": summary.front,
        "transfer": summary.transfer,
        "smaller": summary.smaller,
        "model": search_model_document(summary.model, verdict=study.plan.pairs > 0),
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
