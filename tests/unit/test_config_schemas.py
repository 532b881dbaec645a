"""The JSON Schemas are generated from the loader's models, and accept every good file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from framework.config.document import read_document
from framework.config.schemas import DIRECTORY, KINDS, schema_text

ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / "search_spaces").glob("*.yaml"),
    *(ROOT / "tests" / "cases" / "good").glob("*/application.yaml"),
    *(ROOT / "tests" / "cases" / "good").glob("*/workload.yaml"),
    *(ROOT / "tests" / "cases" / "good").glob("*/configurations/*.yaml"),
    *(ROOT / "apps").glob("*/application.yaml"),
    *(ROOT / "apps").glob("*/workload.yaml"),
    *(ROOT / "apps").glob("*/configurations/*.yaml"),
    *(ROOT / "experiments").glob("*/bottlenecks.yaml"),
    *(ROOT / "tests" / "cases" / "good").glob("*/results.yaml"),
    *(ROOT / "tests" / "cases" / "good").glob("twins/*.json"),
    *(ROOT / "examples").glob("*.yaml"),
    *(ROOT / "experiments" / "bench" / "plan" / "results").glob("node-*.json"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_no_drift(kind: str) -> None:
    written = (DIRECTORY / f"{kind}.json").read_text(encoding="utf-8")
    assert written == schema_text(kind), "run: python -m framework.config.schemas"


@pytest.mark.parametrize("path", sorted(FILES), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_good_files_fit_their_schema(path: Path) -> None:
    data = read_document(path).data
    schema = json.loads(schema_text(data["kind"]))
    Draft202012Validator.check_schema(schema)
    assert [error.message for error in Draft202012Validator(schema).iter_errors(data)] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_refuses_unknown_keys(kind: str) -> None:
    path = next(path for path in sorted(FILES) if read_document(path).data["kind"] == kind)
    data = {**read_document(path).data, "surprise": 1}
    assert not Draft202012Validator(json.loads(schema_text(kind))).is_valid(data)
