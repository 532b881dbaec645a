"""Errors of input: each names its field, and the command line or the API words it."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from framework.api.problems import field_of
from framework.cli.flags import flag
from framework.config.application import load_application
from framework.errors import FieldError, FieldName, FileError, InputError, UnknownName
from framework.model import Objective, Term, TuneRequest
from framework.model.options import options_of
from framework.study.planning import check_request

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"
DECLARED = options_of(TuneRequest)


def test_the_command_line_spells_fields_as_flags() -> None:
    for name, declared in DECLARED.items():
        assert flag(name) == (declared.flag or "--reduce")
    assert flag("window_s") == "--duration"
    assert flag("start_rps") == "--start"
    assert flag("again") == "--again"


def test_an_error_of_a_field_is_worded_for_whoever_reads_it() -> None:
    error = InputError(FieldName("profile"), " needs ", FieldName("placement"), " also")
    assert str(error) == "profile needs placement also"
    assert error.message(flag) == "--profile needs --placement also"
    assert error.field == "profile"
    assert (error.found, error.allowed) == (None, "")
    error = FieldError("iterations", 0, "at least 1")
    assert str(error) == "iterations: found 0; allowed: at least 1"
    assert error.message(flag) == "--iterations: found 0; allowed: at least 1"
    assert (error.field, error.found, error.allowed) == ("iterations", 0, "at least 1")
    known = UnknownName("optimizer", "x", ["b", "a"], field="optimizer")
    assert known.message(flag) == str(known) == "unknown optimizer 'x'; known: a, b"
    assert (known.field, known.found, known.allowed) == ("optimizer", "x", "a, b")
    assert str(UnknownName(FieldName("placement"), "x", ["also"])) == "unknown placement 'x'; known: also"
    file = FileError("a.yaml", "x", 3, "text")
    assert (file.field, file.found, file.allowed) == ("", 3, "text")
    assert InputError("placement").message(flag) == "placement", "a text is no field"
    assert len(InputError(FieldName("only"), "x" * 10_000).message(flag)) < 5_100
    assert len(str(InputError("x" * 10_000))) < 5_100
    told = FieldError.__new__(FieldError, *map(str, error.args))  # as a process that computes answers passes it on
    assert str(told) == told.message(flag) == "iterations: found 0; allowed: at least 1"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"iterations": 0}, "--iterations: found 0; allowed: at least 1"),
        ({"iterations": -1, "rivals": (Path("x"),)}, "--iterations: found -1; allowed: at least 0"),
        ({"repetitions": 0}, "--repetitions: found 0; allowed: at least 1"),
        ({"pairs": 1}, "--pairs: found 1; allowed: at least 2"),
        ({"rate_rps": 0.5}, "--rate: found 0.5; allowed: at least 1"),
        ({"window_s": 0.5}, "--duration: found 0.5; allowed: at least 1"),
        ({"warmup_s": -1.0}, "--warm-up: found -1.0; allowed: at least 0"),
        ({"minimal": 4}, "--minimal: found 4; allowed: 0 to 3"),
        ({"seed": -1}, "--seed: found -1; allowed: at least 0"),
        ({"drift_every": -1}, "--drift-every: found -1; allowed: at least 0"),
        ({"target_ms": 0.0}, "--target: found 0.0; allowed: above 0"),
        ({"rate_rps": float("nan")}, "--rate: found nan; allowed: at least 1"),
    ],
    ids=str,
)
def test_every_number_is_checked_against_its_declaration(changes: dict[str, Any], says: str) -> None:
    application = load_application(SMALL)
    with pytest.raises(InputError) as refused:
        check_request(replace(TuneRequest(SMALL), **changes), application)
    assert refused.value.message(flag) == says
    assert refused.value.field == next(iter(changes))


TWO = {"rates": (100.0, 200.0)}
NEEDED = "at least two, above 0, each larger than the one before"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rates": (200.0, 100.0)}, f"--rates: found '200,100'; allowed: {NEEDED}"),
        ({"rates": (100.0, 100.0)}, f"--rates: found '100,100'; allowed: {NEEDED}"),
        ({"rates": (100.0,)}, f"--rates: found '100'; allowed: {NEEDED}"),
        ({"rates": (-1.0, 100.0)}, f"--rates: found '-1,100'; allowed: {NEEDED}"),
        ({"rates": (1.0, float("nan"))}, f"--rates: found '1,nan'; allowed: {NEEDED}"),
        ({"rates": (0.5, 100.0)}, "--rates: found 0.5; allowed: at least 1"),
        ({"rates": tuple(map(float, range(1, 10)))}, "--rates: found '9 rates'; allowed: at most 8"),
        (TWO | {"over": "median"}, "--over: found 'median'; allowed: worst, mean"),
        ({"over": "median"}, "--over: found 'median'; allowed: worst, mean"),
        ({"over": "mean"}, "--over: allowed only with --rates"),
        ({"weights": (1.0, 2.0)}, "--weights: allowed only with --rates"),
        (TWO | {"weights": (1.0, 2.0)}, "--weights: allowed only with --over mean"),
        (
            TWO | {"over": "mean", "weights": (1.0,)},
            "--weights: found '1'; allowed: 2 numbers above 0, one for each rate",
        ),
        (
            TWO | {"over": "mean", "weights": (1.0, 0.0)},
            "--weights: found '1,0'; allowed: 2 numbers above 0, one for each rate",
        ),
        (TWO | {"rate_rps": 100.0}, "--rate: not allowed with --rates, which name all of them"),
        (
            TWO | {"target_ms": 5.0},
            "--target: not allowed with --rates: the value over several rates is a ratio to the default, and no time",
        ),
    ],
    ids=str,
)
def test_several_rates_are_checked(changes: dict[str, Any], says: str) -> None:
    application = load_application(SMALL)
    with pytest.raises(InputError) as refused:
        check_request(replace(TuneRequest(SMALL), **changes), application)
    assert refused.value.message(flag) == says
    assert f"--{refused.value.field}".startswith(says.partition(":")[0])


def test_several_rates_need_an_objective_that_has_a_ratio() -> None:
    application = load_application(SMALL)
    terms = (Term("p95"), Term("throughput", -0.1))
    mixed = replace(application, objective=Objective(terms))
    check_request(TuneRequest(SMALL), mixed)
    with pytest.raises(InputError, match="rates: the objective maximises throughput, so that it may be 0 or below"):
        check_request(TuneRequest(SMALL, rates=(100.0, 200.0)), mixed)


def test_what_is_in_range_is_accepted() -> None:
    application = load_application(SMALL)
    check_request(TuneRequest(SMALL, rates=(100.0, 200.5)), application)
    check_request(TuneRequest(SMALL, rates=(1.0, 2.0, 3.0), over="mean", weights=(1.0, 2.0, 0.5)), application)
    check_request(TuneRequest(SMALL), application)
    check_request(TuneRequest(SMALL, iterations=0, rivals=(Path("x"),)), application)
    check_request(TuneRequest(SMALL, pairs=0, minimal=3, iterations=20_000), application)


def test_only_the_command_line_speaks_of_flags() -> None:
    wrong = []
    for path in sorted((ROOT / "framework").rglob("*.py")):
        if path.is_relative_to(ROOT / "framework" / "cli"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                continue
            if getattr(node.exc.func, "id", "") not in ("InputError", "FieldError", "UnknownName"):
                continue
            texts = [
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            wrong += [f"{path.relative_to(ROOT)}: {text}" for text in texts if re.search(r"(^|[\s(])--[a-z]", text)]
    assert wrong == []


def test_an_error_of_a_field_is_plain_json() -> None:
    said = field_of(FieldError("also", "memory", "mean, median"))
    assert json.loads(json.dumps(said)) == {"field": "also", "found": "memory", "allowed": "mean, median"}
    assert field_of(InputError("x")) == {}
    assert field_of(FileError("/etc/x", "key", "secret", "text")) == {}, "what is in a file is not repeated"
    assert "found" not in field_of(FieldError("also", "x" * 201, ""))
