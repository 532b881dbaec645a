"""The options of a study are declared once: every place that takes or shows them says what the declaration says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest

from framework.api.access import Caller
from framework.api.form import choices_of_testbeds, form_fields
from framework.api.pages import PAGES
from framework.api.requests import NewStudy
from framework.cli import options
from framework.cli.main import command
from framework.errors import InputError
from framework.model import StudyId, TuneRequest
from framework.model.options import STAGES, Declared, Option, options_of
from framework.report import option_page

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "cases" / "good" / "small"
DECLARED = options_of(TuneRequest)
APPLICATION = Path("apps/none")


# ---------------------------------------------------------------------- the declaration


def test_every_field_of_a_request_but_the_application_is_declared() -> None:
    assert [field.name for field in fields(TuneRequest)] == ["application", *DECLARED, "given"]


@pytest.mark.parametrize("declared", DECLARED.values(), ids=lambda declared: declared.name)
def test_a_declaration_is_whole(declared: Declared) -> None:
    option = declared.option
    assert option.help
    assert not option.help.endswith(".")
    assert "--" not in option.help + option.written + option.label, "only the command line speaks of flags"
    assert option.stage in STAGES
    if isinstance(declared.default, int | float):
        assert option.contains(declared.default)
    if option.choices:
        assert declared.default in option.choices
    assert not option.within or option.within in DECLARED


def test_flags_are_unique() -> None:
    flags = [declared.flag for declared in DECLARED.values() if declared.flag]
    assert len(flags) == len(set(flags))


def test_a_range_says_what_it_contains() -> None:
    option = Option("x", "search", low=0, high=3)
    assert option.range() == "0 to 3"
    assert [option.contains(value) for value in (-1, 0, 3, 4, float("nan"))] == [False, True, True, False, False]
    assert option.range(1) == "1 to 3"
    assert not option.contains(0, 1)
    assert Option("x", "search", above=0).range() == "above 0"
    assert not Option("x", "search", above=0).contains(0)
    assert Option("x", "search", low=1, high_over_http=9).range() == "at least 1"
    assert Option("x", "search", low=1, high_over_http=9).range(over_http=True) == "1 to 9"
    assert Option("x", "search").range() == ""


# ---------------------------------------------------------------------- the command line

# Flag -> default as it is typed.  People have these in scripts; a new option needs no line here.
FLAGS: Mapping[str, Any] = {
    "--optimizer": "tailor", "--testbed": "auto", "--iterations": "15", "--repetitions": 3, "--duration": "20s",
    "--pairs": 10, "--rate": None, "--seed": 1, "--quick": False, "--only": None, "--without": None,
    "--allow-weaker": None, "--warm-up": "5s", "--minimal": 2, "--initial": "default", "--versus": None,
    "--target": None, "--time-limit": None, "--drift-every": 5, "--incremental": False, "--no-trace": False,
    "--reduce": "none", "--threshold": None, "--subject-to": None, "--also": None, "--history": None,
    "--transfer": None, "--option": None, "--limits": None, "--prior": "none", "--placement": "none", "--profile": None,
    "--domains": "auto", "--json": False,
}  # fmt: skip


def tune() -> Any:
    return command("tune")


def typed(*arguments: str) -> TuneRequest:
    """Return the request of a command line."""
    given = dict(tune().make_context("tune", ["apps/none", *arguments]).params)
    assert given.pop("as_json") is False
    return options.request_of(given.pop("application"), given)


def test_the_flags_of_tune_are_those_that_people_know() -> None:
    defaults = {
        parameter.opts[0]: parameter.default for parameter in tune().params if parameter.opts[0].startswith("--")
    }
    assert {flag: defaults.get(flag, "is gone") for flag in FLAGS} == FLAGS
    assert defaults.keys() == {
        declared.flag for declared in DECLARED.values() if declared.flag and declared.option.command == "tune"
    } | {"--json"}
    assert [parameter.opts[0] for parameter in tune().params if parameter.hidden] == ["--no-trace"]
    assert all(len(parameter.opts) == 1 and not parameter.secondary_opts for parameter in tune().params)


def test_nothing_typed_is_the_declared_default() -> None:
    assert typed() == TuneRequest(APPLICATION)


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        (("--iterations", "7", "--rate", "12.5", "--seed", "3"), {"iterations": 7, "rate_rps": 12.5, "seed": 3}),
        (("--iterations", "auto"), {"iterations": "auto"}),
        (("--duration", "500ms", "--warm-up", "1m"), {"window_s": 0.5, "warmup_s": 60.0}),
        (("--target", "20ms", "--time-limit", "2h"), {"target_ms": 20.0, "time_limit_s": 7200.0}),
        (("--target", "1s"), {"target_ms": 1000.0}),
        (("--no-trace", "--incremental", "--quick"), {"trace": False, "incremental": True, "quick": True}),
        (("--only", "a", "--only", "b", "--without", "c.d"), {"only": ("a", "b"), "without": ("c.d",)}),
        (("--initial", "random"), {"initial": "random"}),
        (("--initial", "x.yaml", "--versus", "y.yaml"), {"initial": Path("x.yaml"), "rivals": (Path("y.yaml"),)}),
        (("--reduce", "soft", "--threshold", "share=0.1"), {"reduce": "soft", "thresholds": {"share": 0.1}}),
        (("--reduce", "bottlenecks:f.yaml"), {"reduce": "bottlenecks", "bottlenecks": Path("f.yaml")}),
        (("--reduce", "screening:2026-a"), {"reduce": "screening", "screening": StudyId("2026-a")}),
        (("--history", "2026-a", "--history", "f.yaml"), {"history": (StudyId("2026-a"), Path("f.yaml"))}),
        (("--transfer", "2026-a", "--transfer", "2026-b"), {"transfer": (StudyId("2026-a"), StudyId("2026-b"))}),
        (("--option", "x=1", "--option", "y=[a"), {"options": {"x": 1, "y": "[a"}}),
        (("--rates", "100,200,300"), {"rates": (100.0, 200.0, 300.0)}),
        (
            ("--rates", "1.5, 2", "--rates", "3", "--over", "mean", "--weights", "1,2,1"),
            {"rates": (1.5, 2.0, 3.0), "over": "mean", "weights": (1.0, 2.0, 1.0)},
        ),
        (("--limits", "stolen_cpu=0.1"), {"limits": {"stolen_cpu": 0.1}}),
        (("--profile", "p.jsonl", "--placement", "only"), {"profile": Path("p.jsonl"), "placement": "only"}),
        (("--subject-to", "p99 <= 40", "--also", "cpu"), {"subject_to": ("p99 <= 40",), "also": ("cpu",)}),
    ],
)
def test_what_is_typed_becomes_the_fields_of_a_request(arguments: tuple[str, ...], changes: dict[str, Any]) -> None:
    assert typed(*arguments) == replace(TuneRequest(APPLICATION), **changes)


def test_what_is_typed_is_known_to_be_given() -> None:
    context = tune().make_context("tune", ["apps/none", "--quick", "--iterations", "15", "--duration", "20s"])
    assert options.typed_in(context) == {"application", "quick", "iterations", "window_s"}


def test_a_body_says_which_options_are_given() -> None:
    body = NewStudy.model_validate({"application": "none", "iterations": 4, "pairs": 10})
    assert body.request(APPLICATION, pytest.fail).given == {"iterations"}


def test_a_duration_needs_its_unit() -> None:
    with pytest.raises(InputError, match=r"^--duration: found '20'; allowed: a number with its unit"):
        typed("--duration", "20")


def test_numbers_have_commas_between_them() -> None:
    for text in ("100;200", "100,", "a"):
        with pytest.raises(InputError, match=rf"^--rates: found '{text}'; allowed: numbers with commas between them"):
            typed("--rates", text)


def test_the_help_of_every_option_is_declared() -> None:
    for parameter in tune().params:
        if parameter.name in DECLARED:
            assert parameter.help.startswith(DECLARED[parameter.name].option.help)
    assert options.option_of("minimal").help.endswith("fewer still (0 to 3).")
    assert options.option_of("rate_rps").help.endswith("[default: the application's].")
    assert "bottlenecks:FILE, path+variability, soft, screening:STUDY)" in options.option_of("reduce").help


# ---------------------------------------------------------------------- the body over HTTP

NAMES = {"items": {"maxLength": 128, "minLength": 1, "type": "string"}, "maxItems": 500, "type": "array"}
NUMBERS = {
    "additionalProperties": {"type": "number"}, "maxProperties": 20,
    "propertyNames": {"maxLength": 128, "minLength": 1}, "type": "object",
}  # fmt: skip
ID = "[0-9A-Za-z][0-9A-Za-z-]{0,63}"
# The body that clients send: names, types, limits and defaults, without descriptions.  A new option needs no line here.
BODY: Mapping[str, Any] = {
    "application": {"maxLength": 128, "minLength": 1, "type": "string"},
    "priority": {"default": 0, "maximum": 100, "minimum": -100, "type": "integer"},
    "optimizer": {"default": "tailor", "maxLength": 128, "minLength": 1, "type": "string"},
    "testbed": {"default": "auto", "maxLength": 128, "minLength": 1, "type": "string"},
    "iterations": {
        "anyOf": [{"maximum": 10000, "minimum": 1, "type": "integer"}, {"const": "auto", "type": "string"}],
        "default": 15,
    },
    "repetitions": {"default": 3, "maximum": 100, "minimum": 1, "type": "integer"},
    "window_s": {"default": 20.0, "maximum": 3600, "minimum": 1, "type": "number"},
    "pairs": {"default": 10, "maximum": 200, "minimum": 0, "type": "integer"},
    "rate_rps": {"anyOf": [{"maximum": 100000, "minimum": 1, "type": "number"}, {"type": "null"}], "default": None},
    "seed": {"default": 1, "maximum": 2**31 - 1, "minimum": 0, "type": "integer"},
    "quick": {"default": False, "type": "boolean"},
    "only": NAMES, "without": NAMES, "allow_weaker": NAMES, "bottlenecks": NAMES, "subject_to": NAMES, "also": NAMES,
    "pin": NAMES, "apart": NAMES,
    "warmup_s": {"default": 5.0, "maximum": 600, "minimum": 0, "type": "number"},
    "minimal": {"default": 2, "maximum": 3, "minimum": 0, "type": "integer"},
    "initial": {"default": "default", "enum": ["default", "random"], "type": "string"},
    "target_ms": {"anyOf": [{"exclusiveMinimum": 0, "type": "number"}, {"type": "null"}], "default": None},
    "time_limit_s": {"anyOf": [{"exclusiveMinimum": 0, "type": "number"}, {"type": "null"}], "default": None},
    "drift_every": {"default": 5, "maximum": 1000, "minimum": 0, "type": "integer"},
    "incremental": {"default": False, "type": "boolean"},
    "reduce": {
        "default": "none", "maxLength": 80, "type": "string",
        "pattern": f"^(none|critical-path|variability|bottlenecks|path[+]variability|soft|screening:{ID})$",
    },
    "thresholds": NUMBERS, "limits": NUMBERS,
    "history": {"items": {"pattern": f"^{ID}$", "type": "string"}, "maxItems": 20, "type": "array"},
    "transfer": {"items": {"pattern": f"^{ID}$", "type": "string"}, "maxItems": 20, "type": "array"},
    "prior": {"default": "none", "enum": ["none", "twin"], "type": "string"},
    "placement": {"default": "none", "enum": ["none", "also", "only"], "type": "string"},
    "profile": {"default": False, "type": "boolean"},
    "domains": {"default": "auto", "maxLength": 2000, "type": "string"},
    "rates": {
        "items": {"maximum": 100000, "minimum": 1, "type": "number"}, "maxItems": 20, "type": "array",
    },
    "over": {"default": "worst", "enum": ["worst", "mean"], "type": "string"},
    "weights": {"items": {"exclusiveMinimum": 0, "type": "number"}, "maxItems": 20, "type": "array"},
}  # fmt: skip


def bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: bare(value) for name, value in schema.items() if name not in ("title", "description")}
    return [bare(value) for value in schema] if isinstance(schema, list) else schema


def test_the_body_takes_what_clients_know() -> None:
    schema = NewStudy.model_json_schema()
    properties = bare(schema["properties"])
    assert properties.pop("options")["maxProperties"] == 50
    assert {name: properties.get(name, "is gone") for name in BODY} == BODY
    assert properties.keys() - {"application", "priority"} <= DECLARED.keys()
    assert schema["required"] == ["application"]
    assert schema["title"] == "NewStudy"
    for name, declared in DECLARED.items():
        if name in schema["properties"]:
            assert schema["properties"][name]["description"].startswith(declared.option.help)


def test_no_option_that_is_a_file_or_hidden_is_taken_over_http() -> None:
    assert {"rivals", "trace", "screening"} <= DECLARED.keys() - NewStudy.model_fields.keys()
    assert not any(Path in get_args(field.annotation) for field in NewStudy.model_fields.values())


def test_an_empty_body_is_the_declared_default() -> None:
    body = NewStudy.model_validate({"application": "none"})
    assert body.request(APPLICATION, pytest.fail) == TuneRequest(APPLICATION)


def test_a_body_becomes_the_fields_of_a_request() -> None:
    sent = {"application": "none", "only": ["a"], "history": ["2026-a"], "reduce": "screening:2026-b", "profile": True,
            "limits": {"stolen_cpu": 0.1}, "testbed": "echo", "seed": 3, "rates": [1, 2.5], "over": "mean",
            "weights": [1, 2]}  # fmt: skip
    assert NewStudy.model_validate(sent).request(APPLICATION, lambda: Path("kept.jsonl")) == TuneRequest(
        APPLICATION, only=("a",), history=(StudyId("2026-a"),), reduce="screening", screening=StudyId("2026-b"),
        profile=Path("kept.jsonl"), limits={"stolen_cpu": 0.1}, testbed="echo", seed=3,
        rates=(1.0, 2.5), over="mean", weights=(1.0, 2.0),
    )  # fmt: skip


# ---------------------------------------------------------------------- the form


def launch_page() -> str:
    known = {"optimizer": [("tailor", "tailor: ours"), ("dds", "dds: other")]}
    testbeds = choices_of_testbeds({"docker": False, "twin": True})
    return PAGES.get_template("launch.html").render(
        applications=[], broken={}, chosen="small", groups={"web": ["web.threads"]}, here="launch",
        caller=Caller("", "read"),
        fields=form_fields({**known, "testbed": testbeds}),
    )  # fmt: skip


def test_the_form_has_the_fields_that_it_had() -> None:
    text = launch_page()
    for expected in (
        '<label>optimizer <select name="optimizer"><option value="tailor" selected>tailor: ours</option>',
        '<label>testbed <select name="testbed"><option value="auto" selected>auto: Docker where an engine answers'
        '</option><option value="docker">docker</option><option value="twin">twin: modelled, not measured</option>',
        '<label>configurations, or auto <input type="text" name="iterations" data-word="auto" pattern="[0-9]+|auto" '
        'value="15"></label>',
        '<label>repetitions <input type="number" name="repetitions" min="1" max="100" value="3"></label>',
        '<label>window [s] <input type="number" name="window_s" min="1" max="3600" step="any" value="20"></label>',
        '<label>pairs of the verdict <input type="number" name="pairs" min="0" max="200" value="10"></label>',
        '<label>requests/s <input type="number" name="rate_rps" min="1" max="100000" step="any" value="" '
        'placeholder="the application&#39;s"></label>',
        '<label>several rates, such as 100,200,300 [requests/s] <input type="text" name="rates" data-numbers '
        'value=""></label>',
        '<label>of several rates, improve the <select name="over"><option value="worst" selected>worst</option>'
        '<option value="mean">mean</option></select></label>',
        '<label>seed <input type="number" name="seed" min="0" max="2147483647" value="1"></label>',
        '<label class="check"><input type="checkbox" name="quick"> quick: a first look (8 configurations, 2 x 10 s, '
        "6 pairs; on a model 60 in full)</label>",
        "<legend>parameters to tune (small)</legend>",
        '<input type="checkbox" name="only" value="web" data-several checked> web (1)</label>',
    ):
        assert expected in text
    labelled = [name for name, declared in DECLARED.items() if declared.option.label]
    assert re.findall(r'name="(\w+)"', text.partition('id="launch"')[2]) == ["application", *labelled]


# ---------------------------------------------------------------------- the page, and no further place


def test_the_reference_page_says_what_is_declared() -> None:
    assert option_page.FILE.read_text() == option_page.page(), "python -m framework.report.option_page writes it"


OPTION_NAMES = {*DECLARED, *(declared.flag.removeprefix("--").replace("-", "_") for declared in DECLARED.values())}
MOST_DEFAULTS = 3
# Not options of a study that is launched: class or function -> why it has fields of the same names.
OTHERS = {
    "framework/model/tune_request.py:TuneRequest": "the declaration",
    "framework/model/study.py:StudyPlan": "the frozen plan; defaults are of old stores",
    "framework/config/application_file.py:ApplicationFile": "what holds where the request says nothing",
    "framework/model/decisions.py:StudyDecisions": "what became of the options; undecided at first",
    "framework/model/study.py:Study": "what a study is",
    "framework/api/requests.py:NewExternal": "a study that clients measure",
    "framework/model/profiling.py:ProfileRequest": "of `tailor profile`, with defaults of its own",
    "framework/cli/placement.py:profile": "of `tailor profile`, with defaults of its own",
    "framework/cli/placement.py:place": "of `tailor place`, with defaults of its own",
    "framework/cli/machine.py:sweep": "of `tailor sweep`, with defaults of its own",
    "framework/cli/guard.py:guard": "of `tailor guard`, with defaults of its own",
    "framework/use_cases/guard.py:GuardRequest": "of `tailor guard`, with defaults of its own",
    "framework/model/energy_measurement.py:EnergyRequest": "of `tailor energy`, with defaults of its own",
    "framework/model/node_measurement.py:NodeRequest": "of `tailor plan --measure`, with defaults of its own",
}


def with_defaults(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield each class and function of a module, with its fields or parameters that are an option with a default."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: set[str] = set()
        if isinstance(node, ast.ClassDef):
            names = {
                statement.target.id
                for statement in node.body
                if isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and statement.value is not None
            }
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            positional = [*arguments.posonlyargs, *arguments.args]
            names = {argument.arg for argument in positional[len(positional) - len(arguments.defaults) :]}
            names |= {
                argument.arg
                for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                if default
            }
        else:
            continue
        yield f"{path.relative_to(ROOT)}:{node.name}", names & OPTION_NAMES


def test_no_other_place_declares_options() -> None:
    elsewhere = {
        where: names
        for path in sorted((ROOT / "framework").rglob("*.py"))
        for where, names in with_defaults(path)
        if len(names) > MOST_DEFAULTS and where not in OTHERS
    }
    assert elsewhere == {}, "an option of a study is declared in framework/model/tune_request.py, and nowhere else"


def test_neither_the_form_nor_its_script_nor_the_commands_name_an_option_of_their_own() -> None:
    template = (ROOT / "framework/api/templates/launch.html").read_text()
    script = (ROOT / "framework/api/static/dashboard.js").read_text()
    for name in DECLARED:
        assert f'name="{name}"' not in template
        assert f'"{name}"' not in script
        assert f"elements.{name}" not in script
    for path in (ROOT / "framework/api/requests.py", *(ROOT / "framework/cli").glob("*.py")):
        tree = ast.parse(path.read_text())
        own = [node for node in ast.walk(tree) if getattr(node, "name", "") in ("NewStudy", "tune")]
        names = {argument.arg for node in own for argument in ast.walk(node) if isinstance(argument, ast.arg)}
        names |= {
            statement.target.id
            for node in own
            for statement in ast.walk(node)
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
        }
        assert names & OPTION_NAMES == set(), path
