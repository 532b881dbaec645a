"""Settings from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framework.config import Settings
from framework.errors import InputError


def test_defaults() -> None:
    assert Settings.from_environment({}) == Settings(Path.home() / ".tailor")


def test_given(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    spaces = os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")])
    found = Settings.from_environment({"TAILOR_HOME": "~/elsewhere", "TAILOR_SEARCH_SPACES": spaces})
    assert found == Settings(Path.home() / "elsewhere", (tmp_path / "a", tmp_path / "b"))


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"TAILOR_SEARCH_SPACES: found .*; allowed: existing directories"):
        Settings.from_environment({"TAILOR_SEARCH_SPACES": str(tmp_path / "missing")})
