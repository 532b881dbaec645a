"""``tailor energy``: what is said of a measurement, of a comparison, and of words that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import framework.cli.energy
from framework.cli.main import app
from framework.config.energy_file import write_energy
from framework.errors import FieldError, InputError, TailorError, UnknownName
from tests.energy_machine import MeteredMachine, energy_measured, opened_machines

SMALL = str(Path(__file__).resolve().parents[1] / "cases" / "good" / "small")
SHORT = ("--rate", "50", "--duration", "20s", "--warmup", "5s", "--rounds", "2")


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["energy", *words])
    if isinstance(result.exception, TailorError):
        raise result.exception
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.stdout.split())


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MeteredMachine]:
    made = opened_machines(tmp_path)
    tailor, machine = next(made)()
    monkeypatch.setattr(framework.cli.energy, "opened", lambda: tailor)
    yield machine
    assert next(made, None) is None, "it is closed"


def test_an_application_is_measured_and_told(machine: MeteredMachine, tmp_path: Path) -> None:
    status, text = run(SMALL, *SHORT)
    assert status == 0
    assert "measured by this machine's meter" in text
    for part in ("nothing runs", "idle", "load, 50 requests/s", "of the whole machine", "cpio", "emio", "P = 300 W"):
        assert part in text, part
    assert (tmp_path / "energy" / "small.html").exists()
    loads = len(machine.loads)
    status, text = run("run", SMALL, *SHORT, "--json")
    document = json.loads(text)
    assert len(machine.loads) == loads, "nothing is measured twice"
    assert document["runs"][0]["io"]["emio"].keys() == {"own", "0", "0.7"}
    assert document["page"].endswith("small.html")


def test_an_estimate_says_so(tmp_path: Path, machine: MeteredMachine) -> None:
    file = write_energy(energy_measured(), tmp_path / "kept.json")
    status, text = run("show", str(file), "--page", str(tmp_path / "page.html"))
    assert status == 0
    assert "ESTIMATED from the CPUs' utilisation, not measured" in text
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    _, at_block = run("show", str(file), "--io", "block")
    assert "an I/O operation of 512 bytes (block)" in at_block
    _, at_application = run("show", str(file), "--io", "application")
    assert "not counted at this level (application)" in at_application


def test_two_applications_are_compared(machine: MeteredMachine, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for file in Path(SMALL).iterdir():
        if file.is_file():
            (other / file.name).write_text(file.read_text().replace("name: small", "name: larger"))
    status, text = run("compare", SMALL, str(other), "--rate", "50", "--duration", "20s", "--rounds", "6")
    assert status == 0
    assert "CPU time per request at 50 requests/s: larger takes 1.000 times what small takes" in text
    assert "no difference shown" in text
    _, few = run("compare", SMALL, str(other), "--rate", "50", "--duration", "20s", "--rounds", "2", "--again")
    assert "2 pairs are too few for an interval" in few
    assert "larger takes 1.000 times what small takes; 2 pairs are too few" in few, "and none is shown"
    assert "inf" not in few.replace("information", "")


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ((SMALL, "--rate", "many"), InputError, "numbers with commas"),
        ((SMALL, "--io", "disk"), UnknownName, "application, block, device"),
        ((SMALL, "--phases", "base"), UnknownName, "baseline, idle, run"),
        ((SMALL, "--duration", "soon"), InputError, "--duration"),
        ((SMALL, "--rounds", "0"), FieldError, "rounds"),
        (("compare", SMALL), InputError, "a second application"),
        ((SMALL, "--disk", "-1"), FieldError, "disk"),
        (("compare", SMALL, SMALL, *SHORT), InputError, "both are called small"),
        (("show", "none.json"), InputError, "none.json"),
    ],
)
def test_words_that_cannot_be_used_are_refused(
    machine: MeteredMachine, words: tuple[str, ...], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        run(*words)
    assert not machine.deployed
