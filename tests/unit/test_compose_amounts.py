"""Values as servers write them."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.compose.amounts import read, written
from framework.model import Apply, ParameterDefinition
from optimizer.space import Value

Kind = Literal["integer", "real", "categorical", "boolean"]


def parameter(kind: Kind, unit: str = "", choices: tuple[Value, ...] = (), **apply: Any) -> ParameterDefinition:
    how = Apply("flag", **apply)
    return ParameterDefinition("p", kind, 0, how, None, "inert", low=0, high=2**40, choices=choices, unit=unit)


@pytest.mark.parametrize(
    ("unit", "template", "text", "value"),
    [
        ("MiB", "--m {value}mb", "256MB", 256),
        ("MiB", "--m {value}mb", "2gb", 2048),
        ("MiB", "--m {value}MB", "1048576kB", 1024),
        ("KiB", "--m {value}kB", "4MB", 4096),
        ("MiB", "--m {value}MB", "3", None),
        ("MiB", "--m {value}MB", "1500kB", None),
        ("ms", "--t {value}ms", "2s", 2000),
        ("s", "--t {value}", "5", 5),
        ("s", "--t {value}", "2min", 120),
        ("", "--n {value}", "auto", None),
        ("", "--n {value}", "'12'", 12),
    ],
)
def test_sizes_and_times_with_units(unit: str, template: str, text: str, value: int | None) -> None:
    assert read(parameter("integer", unit), text, template) == value


def test_a_server_s_own_units() -> None:
    buffers = parameter("integer", "MiB", units={"": 1 / 128, "k": 1 / 1000})
    assert read(buffers, "16384", "-c b={value}MB") == 128
    assert read(buffers, "64000k", "-c b={value}MB") == 64


def test_words_and_choices() -> None:
    switch = parameter("boolean", words={"true": "enabled", "false": "disabled"})
    assert [read(switch, text, "{value}") for text in ("enabled", "off", "perhaps")] == [True, False, None]
    choice = parameter("categorical", choices=("a", 3))
    assert [read(choice, text, "{value}") for text in ("a", "3", "other", "")] == ["a", 3, "other", None]


@given(st.integers(0, 2**31))
def test_a_value_that_was_written_is_read(value: int) -> None:
    for number in ("decimal", "hexadecimal"):
        made = parameter("integer", "MiB", number=number)
        text = written(made.apply, value)
        assert read(made, text, "{value}") == value
        assert read(made, text + "mb", "--m {value}mb") == value or number == "hexadecimal"
