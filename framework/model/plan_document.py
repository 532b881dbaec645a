"""The document of a study's plan: its decisions are the key ``extra``.

Exports and ``tailor show --json`` have this form, and so had stores before decisions became a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.model.documents import encode
from framework.model.study import Study

RENAMED = {"warm-up": "warmup_s", "frozen": "iterations"}
"""Name in ``extra`` -> field of the decisions, where they differ."""
NAMES: Mapping[str, str] = {field: name for name, field in RENAMED.items()}
EDIT_FIELDS, EDITED = ("after", "default"), ("only", "allow_weaker")
"""Fields of an edit in ``extra``, and those that it had in the plan itself."""


def study_document(study: Study) -> dict[str, Any]:
    """Return the whole study as a JSON value, its plan in this form."""
    document: dict[str, Any] = encode(study)
    del document["decisions"]
    return {**document, "plan": plan_document(study)}


def plan_document(study: Study) -> dict[str, Any]:
    """Return the effective plan of a study with its decisions."""
    return joined(encode(study.plan), encode(study.decisions))


def joined(plan: Mapping[str, Any], decisions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the effective plan with its decisions; arguments as ``encode`` returns them.

    Decisions that were not taken are left out.
    """
    replaced = {name: decisions[name] for name in RENAMED.values() if decisions.get(name) is not None}
    if decisions.get("edits"):
        replaced |= {name: decisions["edits"][-1][name] for name in EDITED if name in decisions["edits"][-1]}
    extra = {}
    for field, value in decisions.items():
        if field == "edits":
            value = [{name: edit[name] for name in EDIT_FIELDS} for edit in value]
        if value is not None and (value != [] or field == "minimal" or field == "prior"):
            extra[NAMES.get(field, field)] = value
    return {**plan, **replaced, "extra": extra}


def separated(document: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (plan, decisions) of a document, both as ``encode`` returns them.

    Raises TypeError, ValueError, KeyError or AttributeError where ``extra`` has another shape.
    """
    plan = dict(document)
    extra: dict[str, Any] = dict(plan.pop("extra", {}))
    decisions: dict[str, Any] = {RENAMED.get(name, name): value for name, value in extra.items()}
    if decisions.get("edits"):  # each edit changed the plan itself
        *before, last = decisions["edits"]
        chosen = {name: plan[name] for name in EDITED if name in plan}
        decisions["edits"] = [*before, {**last, **chosen}]
    return plan, decisions
