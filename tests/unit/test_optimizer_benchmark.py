"""The benchmark's problems, its runs, and the statistics over them."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from framework.benchmark.races import Entry, race, read
from optimizer.benchmark import origin
from optimizer.benchmark.lists import DEVELOPMENT, HELD_OUT, problem
from optimizer.benchmark.microservices import Microservices
from optimizer.benchmark.origin import code_of, identity_of
from optimizer.benchmark.problem import measured
from optimizer.benchmark.race import Run, kind_of, run
from optimizer.benchmark.statistics import against, standing
from optimizer.errors import InvalidInput

SYNTHETIC = [line for line in (*DEVELOPMENT, *HELD_OUT) if line.startswith("microservices")]


@pytest.mark.parametrize("line", SYNTHETIC)
def test_a_synthetic_application_is_like_a_real_one(line: str) -> None:
    made = problem(line)
    assert len(made.space) == int(line.split()[-1])
    default = made.truth(made.space.default())
    assert default is not None
    rng = np.random.default_rng(1)
    values = [made.truth(made.space.from_unit(rng.random(len(made.space)))) for _ in range(300)]
    times = [value for value in values if value is not None]
    assert 15 < len(times) < 300, "some configurations fail, not most"
    assert all(value > 0 for value in times)
    shares = made.priors(made.space.default())
    assert sum(shares.values()) == pytest.approx(1.0)


def test_inert_parameters_do_nothing_and_others_do() -> None:
    made = Microservices(3, 10, "chain", 60)
    default = made.space.default()
    inert = [name for name in made.space.names if name.startswith("inert")]
    assert inert
    rng = np.random.default_rng(0)
    other = made.space.from_unit(rng.random(60))
    assert made.truth(default.replace({name: other[name] for name in inert})) == made.truth(default)
    moved = [
        name for name in made.space.names if made.truth(default.replace({name: other[name]})) != made.truth(default)
    ]
    assert len(moved) > 10


def test_seeds_are_different_problems_and_a_name_is_one_problem() -> None:
    problem, same, other = (
        Microservices(1, 5, "chain", 20),
        Microservices(1, 5, "chain", 20),
        Microservices(2, 5, "chain", 20),
    )
    default = problem.space.default()
    assert problem.truth(default) == same.truth(default) != other.truth(default)
    assert problem.name == same.name != other.name


def test_noise_is_about_the_truth_and_the_same_for_everyone() -> None:
    made = Microservices(1, 5, "chain", 20)
    default = made.space.default()
    truth = made.truth(default)
    assert truth is not None
    values = [measured(made, default, np.random.default_rng(seed)).value for seed in range(400)]
    logs = np.log([value for value in values if value is not None])
    assert np.mean(logs) == pytest.approx(np.log(truth), abs=3 * made.noise(default) / 20)
    assert np.std(logs) == pytest.approx(made.noise(default), rel=0.15)
    assert measured(made, default, np.random.default_rng(5)) == measured(made, default, np.random.default_rng(5))
    assert not measured(made, default, np.random.default_rng(5)).priors
    assert measured(made, default, np.random.default_rng(5), guided=True).priors


@pytest.mark.parametrize("line", ["microservices 1 5 ring 20", "microservices 1", "bbob x 1 1", "sphere 2"])
def test_lines_that_are_no_problem(line: str) -> None:
    with pytest.raises(InvalidInput, match="no such problem"):
        problem(line)


def test_the_lists_share_no_problem() -> None:
    assert not set(DEVELOPMENT) & set(HELD_OUT)
    assert len(HELD_OUT) >= 16


def test_a_run_counts_from_the_default_and_repeats_itself() -> None:
    made = Microservices(1, 5, "chain", 20)
    first, again = (run("dds", made, 1, 8) for _ in range(2))
    assert first.values == again.values
    assert len(first.values) == 9
    assert first.values[0] == made.truth(made.space.default())


def test_a_race_goes_on_where_its_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    entries, problems = [Entry("random"), Entry("dds", "dds-wide", {"r": 0.5})], ["microservices 1 5 chain 20"]
    seen: list[tuple[int, int]] = []
    first = race(entries, problems, [1, 2], 5, path, workers=2, progress=lambda done, of: seen.append((done, of)))
    assert {(run.optimizer, run.seed) for run in first} == {
        (name, seed) for name in ("random", "dds-wide") for seed in (1, 2)
    }
    assert seen[-1] == (4, 4)
    kept = path.read_text().splitlines()
    path.write_text("\n".join(kept[:3]) + "\n")
    again = race(entries, problems, [1, 2], 5, path, workers=1)

    def values(runs: list[Run]) -> set[tuple[str, int, tuple[float, ...]]]:
        return {(run.optimizer, run.seed, run.values) for run in runs}

    assert values(again) == values(first) == values(list(read(path)))
    longer = race(entries[:1], problems, [1], 6, path, workers=1)
    assert [len(run.values) for run in longer] == [7], "a run of another budget is another run"
    assert values(race(entries, problems, [1, 2], 5, path, workers=1)) == values(first)


def test_runs_of_another_optimizer_or_problem_are_made_again(tmp_path: Path) -> None:
    path, problems = tmp_path / "runs.jsonl", ["microservices 1 5 chain 20"]
    [first] = race([Entry("dds")], problems, [1], 4, path, workers=1)
    assert first.origin
    other = replace(first, values=(9.0,) * 5, origin="other")
    path.write_text(json.dumps(asdict(other)) + "\n")
    assert race([Entry("dds")], problems, [1], 4, path, workers=1, keep=True) == [other]
    assert [run.values for run in race([Entry("dds")], problems, [1], 4, path, workers=1)] == [first.values]
    assert len(list(read(path))) == 2
    assert [run.values for run in race([Entry("dds")], problems, [1], 4, path, workers=1)] == [first.values]
    assert len(list(read(path))) == 2, "it is there now"
    race([Entry("dds", options={"r": 0.5})], problems, [1], 4, path, workers=1)
    assert len(list(read(path))) == 3, "other options, another run"


def test_what_an_optimizer_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own modules, however deep, without comments; and not what it does not import."""
    package = tmp_path / "somebodys"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mine.py").write_text("from . import deep\n\n\nclass Mine:\n    x = deep.X\n")
    (package / "deep.py").write_text("def f():\n    import numpy\n    return numpy\n\n\nX = 1\n")
    (package / "other.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("somebodys.mine").Mine
    codes = [code_of(kind)]
    (package / "other.py").write_text("Y = 1\n")
    codes.append(code_of(kind))
    deep = (package / "deep.py").read_text()
    (package / "deep.py").write_text(f'"""Says much."""\n# and more\n{deep}')
    codes.append(code_of(kind))
    assert len(set(codes)) == 1
    (package / "deep.py").write_text(deep.replace("X = 1", "X = 2"))
    assert code_of(kind) != codes[0]
    assert code_of(kind_of("dds")) != code_of(kind_of("dds-grow"))


def test_the_version_of_a_library_that_an_adapter_loads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    def versions(libraries: set[str]) -> list[str]:
        seen.append(libraries)
        return []

    monkeypatch.setattr(origin, "_versions", versions)
    code_of(kind_of("smac"))
    code_of(kind_of("random"))
    assert {"smac", "ConfigSpace"} <= seen[0]
    assert not {"smac", "ConfigSpace"} & seen[1]


def test_what_a_problem_is() -> None:
    problem, same, other = (Microservices(seed, 5, "chain", 20) for seed in (1, 1, 2))
    assert identity_of(problem) == identity_of(same) != identity_of(other)


def runs_of(levels: dict[str, list[float]]) -> list[Run]:
    return [
        Run(name, f"p{j}", "f", 1, (1.0, level), (0.1,), 0)
        for name, reached in levels.items()
        for j, level in enumerate(reached)
    ]


def test_ranks_share_ties_and_average_over_problems() -> None:
    result = standing(runs_of({"a": [1, 1, 1], "b": [2, 1, 2], "c": [3, 3, 0.5]}), 1)
    assert result.mean_ranks == pytest.approx({"a": (1 + 1.5 + 2) / 3, "b": (2 + 1.5 + 3) / 3, "c": (3 + 3 + 1) / 3})


def test_differences_are_adjusted_for_their_number() -> None:
    rng = np.random.default_rng(0)
    base = np.exp(rng.standard_normal(20))
    factors = np.linspace(1.2, 1.8, 20)
    runs = runs_of(
        {"ours": list(base), "same": list(base * np.exp(0.1 * rng.standard_normal(20))), "worse": list(base * factors)}
    )
    worse, same = against(standing(runs, 1), "ours")
    assert (worse.optimizer, worse.wins, worse.losses) == ("worse", 20, 0)
    assert worse.ratio == pytest.approx(1 / np.exp(np.log(factors).mean()))
    assert worse.p == pytest.approx(2 * 2**-19)  # 2 comparisons of a two-sided exact test
    assert same.optimizer == "same"
    assert same.p > 0.05


def test_a_problem_that_someone_did_not_run_does_not_count() -> None:
    runs = runs_of({"a": [1, 2], "b": [2]})
    assert standing(runs, 1).problems == ("p0",)
    with pytest.raises(ValueError, match="no problem"):
        standing(runs, 2)


@pytest.mark.parametrize("line", ["bbob 1 5 1", "bbob-mixint 1 5 1", "bbob-mixint 3 10 2"])
def test_coco_functions_have_their_optimum_at_the_floor(line: str) -> None:
    from optimizer.benchmark.coco import FLOOR

    made = problem(line)
    rng = np.random.default_rng(0)
    values = [made.truth(made.space.from_unit(rng.random(len(made.space)))) for _ in range(50)]
    assert all(value is not None and value >= FLOOR for value in values)
    start = made.truth(made.space.default())
    assert start == problem(line).truth(problem(line).space.default()), "the same function, the same default"
    kinds = {parameter.kind for parameter in made.space.parameters}
    assert kinds == ({"real"} if line.startswith("bbob ") else {"integer", "real"})


def test_the_sphere_of_coco_is_a_sphere() -> None:
    """f1 is the squared distance from the optimum (bbob, plus its value there): second differences are 2 h^2."""
    made = problem("bbob 1 3 1")
    middle = made.space.default()
    h = 0.25
    left, centre, right = (
        made.truth(middle.replace({"x0": float(middle["x0"]) * 0 + shift})) for shift in (1 - h, 1.0, 1 + h)
    )
    assert left is not None
    assert centre is not None
    assert right is not None
    assert left - 2 * centre + right == pytest.approx(2 * h * h, rel=1e-6)
