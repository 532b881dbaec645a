"""The guide on energy says what the program has: sources, levels, quantities, commands, and how far to trust them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from framework.cli.energy import MEASURING, OF_RUN
from framework.cli.main import command
from framework.config.outcomes import is_quantity
from framework.energy.unseen import UNSEEN_ERROR
from framework.model.energy import LEVELS, STATES
from framework.model.energy_measurement import QUICK_ENERGY, ROUNDS
from framework.study.energy_verdict import FEWEST
from framework.testbeds.host.power.opening import METERS, MODELS
from framework.testbeds.host.power.registry import SOURCES

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guides" / "energy.md").read_text()
COMMANDS = re.findall(r"^    tailor (.+?)(?: +#.*)?$", GUIDE, flags=re.MULTILINE)


def test_every_power_source_is_in_the_table() -> None:
    rows = re.findall(r"^\| (`[^|]+) \| (measured|estimated|recorded)", GUIDE, flags=re.MULTILINE)
    named = {name for cells, _ in rows for name in re.findall(r"`(\w+)", cells)}
    assert named == set(SOURCES.own())
    assert set(METERS) | set(MODELS) <= named


def test_levels_and_states_are_those_that_are_counted() -> None:
    for level in LEVELS:
        assert f"*{level}*" in GUIDE
    for state in STATES:
        assert state in GUIDE


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_of_the_guide_is_understood(words: str) -> None:
    name, *rest = words.split()
    flags = [word for word in rest if word.startswith("--")]
    if name == "energy":
        known = {f"--{option.replace('_', '-')}" for option in (*OF_RUN, *MEASURING, "cores", "from")}
        assert set(flags) <= known, words
    else:
        known = {flag for parameter in command(name).params for flag in parameter.opts}
        assert set(flags) <= known, words
    for place in (word for word in rest if word.startswith("apps/") and word != "apps/one" and word != "apps/other"):
        assert (ROOT / place / "application.yaml").exists()


def test_energy_is_a_quantity_of_studies() -> None:
    assert is_quantity("energy")
    assert "--also energy" in GUIDE


def test_quick_is_quick_and_an_interval_needs_as_many_rounds_as_the_guide_says() -> None:
    assert QUICK_ENERGY["rounds"] < FEWEST <= ROUNDS
    assert "from six rounds on" in GUIDE
    assert FEWEST == 6


def test_the_estimate_is_as_wrong_as_its_account_says() -> None:
    """The error in the account and the interval of the estimator come from the kept score."""
    score = json.loads((ROOT / "experiments" / "energy" / "results" / "estimator.json").read_text())
    account = (ROOT / "experiments" / "energy" / "README.md").read_text()
    estimator = score["readings"]["the energy of a row over its duration"]["all"]["estimator"]
    assert estimator["median"] <= 0.2
    for share in (estimator["median"], estimator["quantile_90"]):
        assert f"{100 * share:.0f} %" in GUIDE
    assert f"{100 * estimator['median']:.1f} %" in account
    assert f"factor of {math.exp(UNSEEN_ERROR):.1f}" in GUIDE
