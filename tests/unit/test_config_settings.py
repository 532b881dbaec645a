"""Settings from the environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from framework.config.settings import Settings
from framework.errors import InputError


def test_defaults() -> None:
    home = Path.home() / ".tailor"
    settings = Settings.from_environment({})
    assert settings == Settings(home, (), f"sqlite:///{home / 'tailor.db'}", (Path("apps").absolute(),))


def test_given(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    spaces = os.pathsep.join([str(tmp_path / "a"), str(tmp_path / "b")])
    given = {"TAILOR_HOME": "~/elsewhere", "TAILOR_SEARCH_SPACES": spaces, "TAILOR_APPLICATIONS": str(tmp_path / "b")}
    settings = Settings.from_environment({**given, "TAILOR_DATABASE": "sqlite://"})
    assert settings == Settings(
        Path.home() / "elsewhere", (tmp_path / "a", tmp_path / "b"), "sqlite://", (tmp_path / "b",)
    )


def test_swarms_have_names() -> None:
    given = {"TAILOR_SWARM": "a", "TAILOR_SWARM_LEFT": "b, c", "TAILOR_SWARM_RIGHT_2": "d", "TAILOR_SWARM_NONE": ""}
    settings = Settings.from_environment(given)
    assert settings.swarm == ("a",)
    assert settings.swarms == {"left": ("b", "c"), "right_2": ("d",)}


@pytest.mark.parametrize("name", ["", "a-b", "a" * 25, "a:b"])
def test_a_swarm_whose_name_is_none(name: str) -> None:
    with pytest.raises(InputError, match="TAILOR_SWARM_"):
        Settings.from_environment({f"TAILOR_SWARM_{name}": "a"})


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"TAILOR_SEARCH_SPACES: found .*; allowed: existing directories"):
        Settings.from_environment({"TAILOR_SEARCH_SPACES": str(tmp_path / "missing")})


def test_hosts_and_proxies() -> None:
    settings = Settings.from_environment({"TAILOR_HOSTS": "Tailor.example., 10.0.0.7 ,[2001:DB8::1]"})
    assert settings.hosts == ("tailor.example", "10.0.0.7", "2001:db8::1")
    assert Settings.from_environment({"TAILOR_PROXIES": "10.0.0.1,10.1.0.0/16"}).proxies == ("10.0.0.1", "10.1.0.0/16")


@pytest.mark.parametrize("host", ["*", "tailor.example:8420", "http://tailor.example", "*.example", "a b", "-a", "a/b"])
def test_a_host_that_is_no_host_name(host: str) -> None:
    with pytest.raises(InputError, match="TAILOR_HOSTS: found"):
        Settings.from_environment({"TAILOR_HOSTS": host})


@pytest.mark.parametrize("proxy", ["*", "proxy.example", "10.0.0.1/8", "10.0.0.1:80"])
def test_a_proxy_that_is_no_address(proxy: str) -> None:
    with pytest.raises(InputError, match="TAILOR_PROXIES: found"):
        Settings.from_environment({"TAILOR_PROXIES": proxy})
