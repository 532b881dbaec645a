"""Twins as problems: made-up applications of every size, with the knowledge base's parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from framework.benchmark.generated import generated
from framework.benchmark.races import problem_of
from framework.config.twin_file import load_twin, twin_text
from framework.errors import InputError
from optimizer.base import PATH_ORDER
from optimizer.benchmark.race import run

SOCIAL_NETWORK = Path(__file__).resolve().parents[2] / "apps" / "social-network"


@pytest.mark.parametrize("shape", ["chain", "fan-out"])
def test_an_application_that_was_made_up(shape: Literal["chain", "fan-out"], tmp_path: Path) -> None:
    twin, application = generated(3, 12, shape)
    assert generated(3, 12, shape)[0] == twin
    assert generated(4, 12, shape)[0] != twin
    assert {operation.service for operation in twin.operations} == {service.name for service in application.services}, (
        "all are called"
    )
    path = tmp_path / "twin.json"
    path.write_text(twin_text(twin))
    assert load_twin(path).classes == twin.classes, "it is a sound twin"
    problem = problem_of(f"made 3 12 {shape}")
    assert len(application.services) == 12
    assert len(problem.space) > 30
    default = problem.truth(problem.space.default())
    assert default is not None
    assert 1 < default < 500
    rng = np.random.default_rng(1)
    others = [problem.truth(problem.space.from_unit(rng.random(len(problem.space)))) for _ in range(6)]
    assert len({round(value, 3) for value in others if value is not None}) > 3, "configurations differ"


def test_a_race_on_a_twin() -> None:
    done = run("random", problem_of("made 1 6 fan-out"), 1, 3)
    assert len(done.values) == 4


def test_the_critical_path_of_a_twin_goes_from_the_front_end_to_the_stores() -> None:
    space = problem_of(f"twin {SOCIAL_NETWORK} critical-path").space
    place = {parameter.group: parameter.attributes[PATH_ORDER] for parameter in space.parameters}
    stores = [where for name, where in place.items() if name.endswith("-db")]
    assert stores
    assert place["compose-post"] < min(stores)
    wider = problem_of(f"twin {SOCIAL_NETWORK} critical-path 0.5")
    assert set(space.groups) < set(wider.space.groups)
    assert wider.name.endswith("critical-path 0.5")
    assert set(problem_of(f"twin {SOCIAL_NETWORK} critical-path 1").space.groups) == set(space.groups)


@pytest.mark.slow
def test_a_thousand_services() -> None:
    twin, application = generated(1, 1_000, "fan-out")
    assert len(application.services) == 1_000
    problem = problem_of("made 1 1000 fan-out")
    assert len(problem.space) > 3_000
    assert problem.truth(problem.space.default()) is not None
    assert len(twin.hosts) > 30


def test_bad_lines() -> None:
    for limit in ("much", "-1", "nan", "1 2"):
        with pytest.raises(InputError, match=f"twin: found {limit}; allowed: a number of milliseconds"):
            problem_of(f"twin {SOCIAL_NETWORK} critical-path {limit}")
    with pytest.raises(InputError, match="made: found"):
        problem_of("made 1 six chain")
    with pytest.raises(InputError, match="at least 5"):
        problem_of("made 1 4 chain")
