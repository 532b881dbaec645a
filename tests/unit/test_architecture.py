"""The picture of the rooms is what the code is, and the page names every room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_picture_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "architecture"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_page_has_every_room() -> None:
    rooms = {path.name for path in (ROOT / "framework").iterdir() if (path / "__init__.py").exists()}
    assert {room for room in rooms if f"{room}/" not in PAGE} == set()


# Private words that the field's terms took the place of.
RETIRED = {
    "lately", "telling", "earlier", "proof", "desk", "wish", "held", "together", "namesakes", "sharing", "stressing",
    "compiled", "compiling", "guards", "pace", "bodies", "keeping", "look", "placing", "present", "observing",
    "belief", "minimal", "solvers", "libraries", "neighbours",
}  # fmt: skip


def test_no_module_has_a_retired_name() -> None:
    modules = {path.stem for room in ("framework", "optimizer") for path in (ROOT / room).rglob("*.py")}
    assert modules & RETIRED == set()
