"""Values that the user's deployment has today, and items of variables that are lists."""

from __future__ import annotations

import pytest

from framework.compose.baseline import items_of, value_pattern
from framework.compose.files import one_statement_a_line
from framework.compose.service import apply_settings
from framework.compose.service_files import Setting
from framework.model import Apply, ParameterDefinition
from optimizer.space import Value


def option(name: str, template: str, variable: str = "JAVA_TOOL_OPTIONS") -> ParameterDefinition:
    return ParameterDefinition(name, "integer", 1, Apply("environment", variable, template, separator=" "), None, "gc")


def options_of(given: str | None, *values: tuple[str, Value]) -> str:
    entry = {"image": "x"} if given is None else {"image": "x", "environment": {"JAVA_TOOL_OPTIONS": given}}
    settings = [Setting(option(template, template), value, written=True) for template, value in values]
    rendered = apply_settings("web", entry, settings)
    return str(rendered.entry["environment"]["JAVA_TOOL_OPTIONS"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "-XX:Percentage=50 -Xss4m"),
        ("", "-XX:Percentage=50 -Xss4m"),
        ("-Dfile=x", "-Dfile=x -XX:Percentage=50 -Xss4m"),
        ("-XX:Percentage=25 -Dfile=x", "-XX:Percentage=50 -Dfile=x -Xss4m"),
        ("-Xss1m  -Da=$$HOME", "-Xss4m -Da=$$HOME -XX:Percentage=50"),
        ("-Da='b c' -XX:Percentage=1", "'-Da=b c' -XX:Percentage=50 -Xss4m"),
    ],
)
def test_items_of_a_variable_are_added_or_replaced(given: str | None, expected: str) -> None:
    made = options_of(given, ("-XX:Percentage={value}", 50), ("-Xss{value}m", 4))
    assert sorted(items_of(made, " ")) == sorted(items_of(expected, " "))
    assert made == expected or given == "-Xss1m  -Da=$$HOME"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "-no-a -no-b -use-b"),
        ("-Dx=1", "-Dx=1 -no-a -no-b -use-b"),
        ("-use-a -Dx=1", "-Dx=1 -no-a -no-b -use-b"),
        ("-no-a -no-b -use-a", "-no-a -no-b -use-b"),
        ("-no-a -no-b -use-b", "-no-a -no-b -use-b"),
    ],
)
def test_an_item_with_resets_goes_behind_them_and_all_others(given: str | None, expected: str) -> None:
    apply = Apply("environment", "OPTIONS", "-use-{value}", separator=" ", resets="-no-a -no-b")
    parameter = ParameterDefinition("use", "categorical", "a", apply, None, "gc", choices=("a", "b"))
    entry = {"image": "x"} if given is None else {"image": "x", "environment": {"OPTIONS": given}}
    rendered = apply_settings("web", entry, [Setting(parameter, "b", written=True)])
    assert rendered.entry["environment"]["OPTIONS"] == expected


def test_a_template_s_pattern_takes_the_value_with_its_unit() -> None:
    match = value_pattern("worker_connections {value};").fullmatch("worker_connections   4096;")
    assert match is not None
    assert match["value"] == "4096"
    match = value_pattern("-Xmx{value}m").fullmatch("-Xmx2g")
    assert match is not None
    assert match["value"] == "2g"


def test_a_value_at_the_end_of_a_line_is_read_as_a_whole() -> None:
    found = value_pattern("balance {value}").search("    balance roundrobin  # as before")
    assert found is not None
    assert found["value"] == "roundrobin"


def test_blocks_on_one_line_are_put_apart() -> None:
    text = (
        "worker_processes auto; # workers; { as many\n"
        "events { worker_connections 1024; }\n"
        'http { log_format a "{ $x; }"; server { listen 80; return 200 "ok;${y}"; } }\n'
    )
    assert one_statement_a_line(text) == (
        "worker_processes auto;\n"
        "# workers; { as many\n"
        "events {\n"
        "    worker_connections 1024;\n"
        "}\n"
        "http {\n"
        '    log_format a "{ $x; }";\n'
        "    server {\n"
        "        listen 80;\n"
        '        return 200 "ok;${y}";\n'
        "    }\n"
        "}\n"
    )
