"""A study's plan as documents show it: with the decisions of the study as ``extra``.

Exports and ``tailor show --json`` have this form, and stores had it before decisions had a column of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.model.documents import encode
from framework.model.study import Study

RENAMED = {"warm-up": "warmup_s", "frozen": "iterations"}
"""Name in ``extra`` -> field of the decisions, where they differ."""
NAMES: Mapping[str, str] = {field: name for name, field in RENAMED.items()}
EDIT_FIELDS = ("after", "default")


def study_document(study: Study) -> dict[str, Any]:
    """The whole study as JSON, its plan in this form."""
    document: dict[str, Any] = encode(study)
    del document["decisions"]
    return {**document, "plan": plan_document(study)}


def plan_document(study: Study) -> dict[str, Any]:
    """The plan as the study follows it, and its decisions."""
    return joined(encode(study.effective_plan), encode(study.decisions))


def joined(plan: Mapping[str, Any], decisions: Mapping[str, Any]) -> dict[str, Any]:
    """Both as ``encode`` gives them; decisions that were not taken are left out."""
    extra = {}
    for field, value in decisions.items():
        if field == "edits":
            value = [{name: edit[name] for name in EDIT_FIELDS} for edit in value]
        if value is not None and (value != [] or field == "minimal" or field == "prior"):
            extra[NAMES.get(field, field)] = value
    return {**plan, "extra": extra}


def separated(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inverse: (plan, decisions), both as ``encode`` gives them.

    Raises TypeError, ValueError, KeyError or AttributeError where ``extra`` has another shape.
    """
    plan = dict(document)
    extra: dict[str, Any] = dict(plan.pop("extra", {}))
    decisions: dict[str, Any] = {RENAMED.get(name, name): value for name, value in extra.items()}
    if decisions.get("edits"):  # each edit changed the plan itself
        *before, last = decisions["edits"]
        chosen = {name: plan[name] for name in ("only", "allow_weaker") if name in plan}
        decisions["edits"] = [*before, {**last, **chosen}]
    return plan, decisions
