"""Variables are filled in as the Compose Specification says, and Tailor's own variables are never passed on."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.compose.interpolation import InterpolationError, Variables, escaped, interpolated

SET = Variables({"A": "a", "EMPTY": ""}, ["HELD"])


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("plain", "plain"),
        ("$A", "a"),
        ("${A}", "a"),
        ("x${A}y$A.z", "xaya.z"),
        ("$$A", "$A"),
        ("$${A}", "${A}"),
        ("${NONE}", ""),
        ("${NONE-d}", "d"),
        ("${EMPTY-d}", ""),
        ("${EMPTY:-d}", "d"),
        ("${A:-d}", "a"),
        ("${NONE:-${A}}", "a"),
        ("${NONE:-${ALSO:-deep}}", "deep"),
        ("${A:+there}", "there"),
        ("${EMPTY:+there}", ""),
        ("${EMPTY+there}", "there"),
        ("${A:?needed}", "a"),
        ("${HELD:-d}", "d"),
        ("${TAILOR_HTTP_PORT:-}", ""),
        ("${A:-${TAILOR_DATABASE}}", "a"),
    ],
)
def test_forms(text: str, becomes: str) -> None:
    assert interpolated(text, SET) == becomes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("${HELD}", "HELD is set here and not passed on"),
        ("$TAILOR_DATABASE", "TAILOR_DATABASE is Tailor's own"),
        ("${NONE:-$TAILOR_DATABASE}", "Tailor's own"),
        ("${NONE:?say why}", "NONE is needed: say why"),
        ("${EMPTY:?}", "EMPTY is needed"),
        ("${A", "without"),
        ("${}", "begins no variable"),
        ("$1", "begins no variable"),
        ("${A!}", "is no variable"),
    ],
)
def test_what_cannot_be_filled_in(text: str, says: str) -> None:
    with pytest.raises(InterpolationError, match=says):
        interpolated(text, SET)


def test_unset_variables_are_reported() -> None:
    unset: set[str] = set()
    interpolated("${NONE}${A}${OTHER:-x}", SET, unset)
    assert unset == {"NONE"}


def test_tailor_s_own_are_not_passed_on_by_name_either() -> None:
    variables = Variables.of({"TAILOR_DATABASE": "secret", "A": "a"}, ["TAILOR_DATABASE", "A"])
    assert variables.passed == {"A": "a"}
    with pytest.raises(InterpolationError):
        interpolated("$TAILOR_DATABASE", variables)


@given(st.text(alphabet="$A{}:-?+x ", max_size=12))
def test_escaped_text_is_itself_again(text: str) -> None:
    assert interpolated(escaped(text), SET) == text


needs_compose = pytest.mark.skipif(shutil.which("docker") is None, reason="the docker command is missing")
TEXTS = ["$A", "${A}", "${NONE}", "${NONE-d}", "${EMPTY-d}", "${EMPTY:-d}", "${NONE:-${A}}", "$$A", "${A:+there}",
         "${EMPTY+there}", "${NONE:-x${EMPTY:-y}z}", "a$$b$${c}"]  # fmt: skip


@needs_compose
def test_compose_says_the_same(tmp_path: Path) -> None:
    """The oracle is compose itself; it needs no engine for this."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is missing")
    (tmp_path / "compose.yaml").write_text(json.dumps({"services": {"s": {"image": "x", "environment": {
        f"N{number}": text for number, text in enumerate(TEXTS)}}}}))  # fmt: skip
    said = subprocess.run(
        ["docker", "compose", "-f", str(tmp_path / "compose.yaml"), "config", "--format", "json"],
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(Path.home()), "A": "a", "EMPTY": ""},
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    given = json.loads(said.stdout)["services"]["s"]["environment"]
    expected = {f"N{number}": escaped(interpolated(text, SET)) for number, text in enumerate(TEXTS)}
    assert given == expected, "compose prints dollars doubled"
