"""The guide to writing an optimizer: its example is taken out, installed and run as it stands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from optimizer import registry
from optimizer.base import Optimizer
from optimizer.testing import conformance

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "add-an-optimizer.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay the example out as an installer does: the module, and the metadata of its distribution."""
    plugin, _ = blocks("python")
    project = tomllib.loads(blocks("toml")[0])["project"]
    (tmp_path / "tailor_coordinate.py").write_text(plugin)
    metadata = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entries = project["entry-points"][registry.GROUP]
    lines = [f"[{registry.GROUP}]", *(f"{name} = {value}" for name, value in entries.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tailor_coordinate", raising=False)
    return tmp_path


def test_the_example_is_found_by_name_and_conforms(installed: Path) -> None:
    assert "coordinate" in registry.names()
    loaded = registry.load("coordinate")
    checks = conformance(loaded)
    assert {"learns", "reproducible_in_another_process"} <= {check.name for check in checks}
    for check in checks:
        check()


def test_the_example_of_a_test_runs(installed: Path) -> None:
    (installed / "test_coordinate.py").write_text(blocks("python")[1])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_coordinate.py"],
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b1[0-9] passed", done.stdout)


def test_the_example_passes_the_linter_and_the_strict_type_checker(installed: Path) -> None:
    root = GUIDE.parents[2]
    plugin = str(installed / "tailor_coordinate.py")
    for command in (
        ["ruff", "check", "--config", str(root / "pyproject.toml")],
        ["mypy", "--config-file", str(root / "pyproject.toml")],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command, plugin], cwd=root, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_guide_names_every_capability() -> None:
    text = GUIDE.read_text()
    declared = [name for name, kind in Optimizer.__annotations__.items() if str(kind).startswith("ClassVar")]
    assert len(declared) > 8
    missing = [name for name in declared if f"`{name}`" not in text]
    assert not missing


def test_installed_by_pip_it_is_listed_and_runs(tmp_path: Path) -> None:
    """Install the guide's project unchanged with pip, then run it from the command line in another process."""
    project, site = tmp_path / "project", tmp_path / "site"
    project.mkdir()
    (project / "tailor_coordinate.py").write_text(blocks("python")[0])
    (project / "pyproject.toml").write_text(blocks("toml")[0])
    # Without the network: the build tools are installed already, and tailor itself is the checkout.
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(site), str(project)], check=True, capture_output=True)
    root = GUIDE.parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{site}", "TAILOR_HOME": str(tmp_path / "home")}
    tailor = [sys.executable, "-c", "from framework.cli.main import main; main()"]

    def said(*arguments: str) -> str:
        done = subprocess.run([*tailor, *arguments], env=environment, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    listed = {row["name"]: row for row in json.loads(said("optimizers", "--json"))}
    assert listed["coordinate"]["summary"] == "one parameter at a time, from the best so far"
    race = ["--only", "microservices 1 ", "--evaluations", "4", "--seeds", "1", "--output", str(tmp_path / "bench")]
    ranks = json.loads(said("bench", "coordinate", "random", *race, "--json"))["mean_ranks"]["4"]
    assert set(ranks) == {"coordinate", "random"}
