"""Bounds are arithmetic over the host, and nothing else."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.config.expressions import Host, NotAnExpression, evaluate

HOST = Host(cores=4, memory_mib=8192)


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), (3, 3), (2.5, 2.5), ("host.cores", 4), ("host.memory_mib * 0.25", 2048), ("max(2, host.cores * 2)", 8),
     ("min(host.cores, 2, 1)", 1), ("-host.cores + 10", 6), ("(1 + 2) * 3", 9), (" 7 / 2 ", 3.5), ("2 - -1", 3)],
)  # fmt: skip
def test_values(text: float | str, value: float) -> None:
    assert evaluate(text, HOST) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "cores", "host", "host.disk", "host.cores.real", "2 ** 9", "7 // 2", "7 % 2", "abs(1)", "max(1)", "1 +",
        "max(*[1, 2])", "max(1, 2, key=1)", "[1, 2]", "'a'", "True", "1 if 1 else 2", "1 < 2", "lambda: 1", "1; 2",
        "1j", "1 / 0", "host.cores or 1", "__import__('os')", "1e999", "1e308 * 10", "x" * 300, "(" * 150, "open('x')",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(NotAnExpression):
        evaluate(text, HOST)


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    with contextlib.suppress(NotAnExpression):
        assert isinstance(evaluate(text, HOST), int | float)


@settings(deadline=None)
@given(st.integers(1, 256), st.integers(1, 10**7), st.integers(0, 100), st.integers(1, 100))
def test_agrees_with_python(cores: int, memory: int, a: int, b: int) -> None:
    text = f"max({a}, host.cores * {b} - host.memory_mib / {b})"
    assert evaluate(text, Host(cores, memory)) == max(a, cores * b - memory / b)
