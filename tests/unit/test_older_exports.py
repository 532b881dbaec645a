"""A study that was exported before the house was built (commit cfdf52f) is taken in and says the same numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases" / "good"
TAILOR = [sys.executable, "-c", "from framework.cli.main import main; main()"]


def said(home: Path, *arguments: str) -> str:
    environment = os.environ | {"TAILOR_HOME": str(home), "DOCKER_HOST": "unix:///nonexistent.sock"}
    done = subprocess.run([*TAILOR, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a study's document that the expected file has; the changes are sorted."""
    expected = json.loads((CASES / "study-of-cfdf52f.json").read_text())
    kept = {name: document[name] for name in expected.keys() - {"values"}}
    kept["verdict"] = {name: document["verdict"][name] for name in expected["verdict"]}  # it got keys since
    changes = [
        [change["service"], change["parameter"], change["default"], change["value"]] for change in document["changes"]
    ]
    return {**kept, "values": [trial["value"] for trial in document["trials_detail"]], "changes": sorted(changes)}


def test_the_numbers_are_the_same(tmp_path: Path) -> None:
    expected = json.loads((CASES / "study-of-cfdf52f.json").read_text())
    said(tmp_path / "home", "import", str(CASES / "study-of-cfdf52f.zip"))
    [study] = json.loads(said(tmp_path / "home", "studies", "--json"))
    name = study["study"]
    assert numbers(json.loads(said(tmp_path / "home", "show", name, "--json"))) == expected
    said(tmp_path / "home", "export", name, "--output", str(tmp_path / "again.zip"))
    said(tmp_path / "other", "import", str(tmp_path / "again.zip"))
    assert numbers(json.loads(said(tmp_path / "other", "show", name, "--json"))) == expected
