"""The lines of `tailor doctor APP`: each image with its own remedy, builds, restarts, stand-ins."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from framework.compose.gate import CLOSED
from framework.model import Application, Objective, Service, Workload
from framework.testbeds.docker import probes
from framework.testbeds.docker.examination import builds, restarts
from framework.testbeds.docker.images import remedy_of, sources_of
from framework.testbeds.docker.standins import standins


def application(directory: Path, services: Mapping[str, Mapping[str, Any]]) -> Application:
    return Application(
        name="shop", directory=directory, compose={"services": services},
        services=tuple(Service(name, "", "local", tuned=False) for name in services), hosts=("local",),
        workload=Workload(1.0, "poisson", "", {}), tracing=None, objective=Objective(),
    )  # fmt: skip


def test_each_image_has_the_remedy_that_is_right_for_it(tmp_path: Path) -> None:
    theirs = application(tmp_path, {"web": {"image": "tailor-built/shop-web:1", "build": "."}, "db": {"image": "pg:1"}})
    sources = sources_of(theirs, theirs.compose)
    assert {image: (source.built, source.remedy) for image, source in sources.items()} == {
        "tailor-built/shop-web:1": (True, "a study builds it first"),
        "pg:1": (False, "docker pull pg:1, which a study tries too"),
    }
    ours = application(tmp_path, {"web": {"image": "tailor/shop:1"}, "db": {"image": "postgres:15"}})
    assert {source.remedy for source in sources_of(ours, ours.compose).values()} == {"make images"}
    assert remedy_of("tailor/loadgen:5", ours=False) == "make images"


def test_builds_are_listed_before_anything_happens(tmp_path: Path) -> None:
    (tmp_path / "shop" / "src").mkdir(parents=True)
    base = tmp_path / "shop"
    shop = application(base, {
        "web": {"image": "tailor-built/shop-web:1", "build": {"context": "src", "dockerfile": "web.Dockerfile"}},
        "named": {"image": "me/named:1", "build": "src"},
        "gone": {"image": "tailor-built/shop-gone:1", "build": "nowhere"},
        "above": {"image": "tailor-built/shop-above:1", "build": ".."},
        "odd": {"image": "tailor-built/shop-odd:1", "build": {"context": "src", "ssh": ["default"]}},
        "plain": {"image": "nginx"},
    })  # fmt: skip
    lines = {line.what: line for line in builds([shop])}
    assert set(lines) == {f"shop: {name}" for name in ("web", "named", "gone", "above", "odd")}
    assert f"built, from {base / 'src'} (web.Dockerfile), as tailor-built/shop-web:1" in lines["shop: web"].found
    assert "built only where it cannot be pulled" in lines["shop: named"].found
    assert {name: (line.state, line.needed) for name, line in lines.items() if line.state != "ok"} == {
        f"shop: {name}": ("missing", True) for name in ("gone", "above", "odd")
    }
    assert "there is no" in lines["shop: gone"].found
    assert lines["shop: above"].remedy == f"move it below {base}"
    assert "build.ssh" in lines["shop: odd"].found


COMPLETED = "service_completed_successfully"


def test_restarts_and_one_shots_are_listed(tmp_path: Path) -> None:
    shop = application(tmp_path, {
        "web": {"image": "a", "restart": "always", "depends_on": {"init": {"condition": COMPLETED}}},
        "db": {"image": "a", "restart": "no"},
        "init": {"image": "a"},
    })  # fmt: skip
    assert [line.found.partition(":")[0] for line in restarts({"shop": CLOSED.admitted(shop)})] == ["web", "init"]
    assert list(restarts({"shop": CLOSED.admitted(application(tmp_path, {"db": {"image": "a"}}))})) == []


class Engine:
    """Images with their labels and layers."""

    def __init__(self, images: Sequence[Mapping[str, Any]]) -> None:
        self._images = {image["Id"]: image for image in images}
        self.labelled = self

    def images(self, label: str) -> list[Mapping[str, Any]]:
        return [{"Id": name, "Labels": image["Config"]["Labels"]} for name, image in self._images.items()]

    def image(self, name: str) -> Mapping[str, Any] | None:
        return self._images.get(name)


def image(name: str, layers: int, recipe: str = "r", created: str = "2026-01-01") -> dict[str, Any]:
    labels = {"tailor.standin": "true", "tailor.recipe": recipe}
    return {"Id": name, "Config": {"Labels": labels}, "RootFS": {"Layers": list(range(layers))}, "Created": created}


@pytest.mark.parametrize(
    ("images", "made"),
    [
        ([image("base", 1), image("theirs", 4)], {"base"}),  # a label passes on to what is built on it
        ([image("base", 1), image("theirs", 1, created="2026-02-01")], {"base"}),  # only its metadata differ
        ([image("base", 1), image("redis", 3, "other")], {"base", "redis"}),
        ([image("redis", 3)], {"redis"}),
        ([{"Id": "plain", "Config": {"Labels": None}, "RootFS": {"Layers": [1]}, "Created": ""}], set()),
    ],
)
def test_an_image_on_a_stand_in_is_none_itself(images: list[dict[str, Any]], made: set[str]) -> None:
    labelled = [about for about in images if about["Config"]["Labels"]]
    assert standins(Engine(labelled), images) == made  # type: ignore[arg-type]  # the calls that it uses


# ---------------------------------------------------------------------- any listener


class Process:
    """An engine with one container, whose first process is given."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def inspect(self, container: str) -> Mapping[str, Any]:
        return {"State": {"Pid": self._pid, "Running": True}}


def test_a_listener_is_seen_in_the_kernels_tables() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        # The container's id is part of the name of its control group, and "/" of every such name.
        assert probes.listens(Process(os.getpid()), "/")  # type: ignore[arg-type]


TABLE = "  sl  local_address rem_address   st tx_queue\n   0: {} 00000000:0000 {} 00000000:00000000 00:00000000\n"


@pytest.mark.parametrize(
    ("rows", "listens"),
    [
        ([("0B00007F:A001", "0A")], False),  # the engine's own name server
        ([("00000000:1F90", "01")], False),  # a connection
        ([("00000000:1F90", "0A")], True),
        ([], True),  # no table can be read
    ],
)
def test_the_engines_name_server_is_no_listener(tmp_path: Path, rows: list[tuple[str, str]], listens: bool) -> None:
    (tmp_path / "7" / "net").mkdir(parents=True)
    (tmp_path / "7" / "cgroup").write_text("0::/docker/c\n")
    for address, state in rows:
        (tmp_path / "7" / "net" / "tcp").write_text(TABLE.format(address, state))
    assert probes.listens(Process(7), "c", tmp_path) is listens  # type: ignore[arg-type]
