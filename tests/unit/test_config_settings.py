"""Settings from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framework.config import Settings
from framework.errors import InputError


def test_defaults() -> None:
    home = Path.home() / ".tailor"
    found = Settings.from_environment({})
    assert found == Settings(home, (), f"sqlite:///{home / 'tailor.db'}", (Path("apps").absolute(),))


def test_given(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    spaces = os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")])
    given = {"TAILOR_HOME": "~/elsewhere", "TAILOR_SEARCH_SPACES": spaces, "TAILOR_APPLICATIONS": str(tmp_path / "b")}
    found = Settings.from_environment({**given, "TAILOR_DATABASE": "sqlite://"})
    assert found == Settings(
        Path.home() / "elsewhere", (tmp_path / "a", tmp_path / "b"), "sqlite://", (tmp_path / "b",)
    )


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"TAILOR_SEARCH_SPACES: found .*; allowed: existing directories"):
        Settings.from_environment({"TAILOR_SEARCH_SPACES": str(tmp_path / "missing")})
