"""Tables of measured configurations as problems of the benchmark."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from framework.benchmark.races import problem_of
from framework.benchmark.tables import lines_of, measured_table, named
from framework.cli import main
from framework.errors import FileError, InputError
from optimizer.benchmark.lists import LISTS
from optimizer.benchmark.race import run
from optimizer.benchmark.table import DEFAULTS, Table
from optimizer.errors import InvalidInput
from optimizer.sampling import uniform

OPTIONS = {"cache": [0, 0, 1, 1], "threads": [1, 8, 1, 64], "codec": ["none", "lz4", "zstd", "none"], "fixed": [3] * 4}
VALUES = [10.0, 20.0, 40.0, 80.0]
TEXT = "threads,codec,Latency-,Throughput+\n1,none,10,100\n8,lz4,20,50\n64,zstd,5,200\n"


def table(**more: object) -> Table:
    return Table("t", OPTIONS, VALUES, **more)  # type: ignore[arg-type]


def test_the_space_of_a_table() -> None:
    space = table().space
    kinds = {parameter.name: parameter.kind for parameter in space.parameters}
    assert kinds == {"cache": "boolean", "threads": "integer", "codec": "categorical"}, "an option of one level is none"
    assert (space["threads"].low, space["threads"].high) == (0, 2)
    assert set(space["codec"].choices) == {"none", "lz4", "zstd"}


@pytest.mark.parametrize(("default", "value"), [("good", 10.0), ("median", 40.0), ("bad", 80.0)])
def test_the_default_stands_at_a_quantile_of_the_values(default: str, value: float) -> None:
    problem = table(default=default)
    assert problem.truth(problem.space.default()) == pytest.approx(value)


def test_every_row_answers_for_itself_and_the_nearest_for_others() -> None:
    problem = table()
    rows = [
        {"cache": False, "threads": 0, "codec": "none"},
        {"cache": False, "threads": 1, "codec": "lz4"},
        {"cache": True, "threads": 0, "codec": "zstd"},
        {"cache": True, "threads": 2, "codec": "none"},
    ]
    for row, value in zip(rows, VALUES, strict=True):
        configuration = problem.space.validate(row)
        assert problem.truth(configuration) == pytest.approx(value)
        assert table(answers="rows").measurable(configuration) == configuration
    between = problem.space.validate({"cache": True, "threads": 2, "codec": "lz4"})
    assert problem.truth(between) == pytest.approx(80.0), "one choice away; two options from the others"
    assert problem.measurable(between) == between
    assert table(answers="rows").measurable(between) == problem.space.validate(rows[3])


def test_rows_of_equal_options_count_once() -> None:
    problem = Table("t", {"a": [0, 0, 1], "b": [1, 1, 2]}, [10.0, 40.0, 5.0])
    assert problem.rows == 2
    assert problem.truth(problem.space.validate({"a": False, "b": False})) == pytest.approx(20.0)


@given(seed=st.integers(0, 2**32 - 1))
def test_every_point_has_the_value_of_some_row(seed: int) -> None:
    problem = table(answers="rows")
    point = uniform(problem.space, np.random.default_rng(seed))
    truth = problem.truth(point)
    assert any(truth == pytest.approx(value) for value in VALUES)
    assert problem.truth(problem.measurable(point)) == truth, "what is told stands for the row that answered"


@pytest.mark.parametrize(
    ("options", "values", "more", "said"),
    [
        ({"a": [1, 1]}, [1.0, 2.0], {}, "no option has two levels"),
        ({"a": [1, 2]}, [1.0, 0.0], {}, "not a finite number above 0"),
        ({"a": [1, 2]}, [1.0, math.inf], {}, "not a finite number above 0"),
        ({"a": []}, [], {}, "no row"),
        ({"a": [1, 2]}, [1.0, 2.0], {"default": "best"}, "default: found best; allowed: good, median, bad"),
        ({"a": [1, 2]}, [1.0, 2.0], {"answers": "guess"}, "answers: found guess; allowed: nearest, rows"),
        ({"a": [1, 2]}, [1.0, 2.0], {"noise": -1.0}, "noise: found -1"),
    ],
)
def test_a_table_that_is_none(
    options: dict[str, list[float]], values: list[float], more: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        Table("t", options, values, **more)  # type: ignore[arg-type]


def test_a_file_of_a_user(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(TEXT)
    assert lines_of(str(path)) == [f"table {path} Latency", f"table {path} Throughput"]
    latency, throughput = (measured_table([str(path), name]) for name in ("Latency", "Throughput"))
    assert latency.truth(latency.space.default()) == pytest.approx(10.0)
    assert throughput.truth(throughput.space.default()) == pytest.approx(1 / 100.0), "its inverse is minimised"
    packed = tmp_path / "mine.csv.gz"
    packed.write_bytes(gzip.compress(TEXT.encode()))
    assert measured_table([str(packed), "Latency"]).space == latency.space
    noisy = measured_table([str(path), "Latency", "noise", "25", "default", "bad", "answers", "rows"])
    assert (noisy.noise(noisy.space.default()), noisy.answers) == (0.25, "rows")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 lines"),
        ("a,b-\n", "1 lines"),
        ("a,a,b-\n1,2,3\n", "a column named twice"),
        ("a,b-\n1\n", "row 2: found '1 values'; allowed: 2"),
        ("a,b\n1,2\n", "options, and objectives whose names end in"),
        ("a-,b-\n1,2\n", "options, and objectives whose names end in"),
        ("a,b-\n1,fast\n2,3\n", "row 2, b-: found 'fast'; allowed: a finite number above 0"),
        ("a,b-\n1,-3\n2,3\n", "row 2, b-: found '-3'"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(FileError, match=said):
        measured_table([str(path), "b"])


def test_a_file_that_unpacks_to_more_than_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"a,b-\n" + b"1,2\n" * 10_000))
    monkeypatch.setattr("framework.benchmark.tables.RECORD_BYTES", 1_000)
    with pytest.raises(FileError, match="more than 1000 bytes unpacked"):
        measured_table([str(path), "b"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["SS-O"], "allowed: TABLE OBJECTIVE"),
        (["SS-O", "Performance", "noise"], "allowed: TABLE OBJECTIVE"),
        (["SS-O", "Performance", "colour", "red"], "found colour; allowed: noise, default, answers"),
        (["SS-O", "Performance", "noise", "much"], "noise: found much"),
        (["SS-O", "Performance", "answers", "guess"], "answers: found guess; allowed: nearest, rows"),
        (["SS-O", "Memory"], "no such objective'; allowed: Performance, Cpu"),
        (["nowhere", "Performance"], "no such file'; allowed: a file, or one of SQL_AllMeasurements, SS-D"),
    ],
)
def test_a_line_that_names_no_problem(words: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        measured_table(words)


def test_the_tables_of_tailor() -> None:
    assert len(named()) == 12
    for name in named():
        for line in lines_of(name):
            problem = problem_of(line)
            assert isinstance(problem, Table)
            default, space = problem.truth(problem.space.default()), problem.space
            assert default is not None
            assert default > 0
            assert problem.truth(space.default()) == problem.truth(problem.measurable(space.default()))


def test_the_lists_of_tables_share_no_system() -> None:
    systems = {"SS-D": "Storm", "SS-E": "Storm", "SS-I": "Storm", "SS-Q": "VP9", "SS-R": "VP9", "SS-U": "x264",
               "X264_AllMeasurements": "x264"}  # fmt: skip
    sides = [
        {systems.get(name, name) for line in LISTS[which] for name in [line.split()[1]]}
        for which in ("tables", "held-out-tables")
    ]
    assert sides[0] & sides[1] == set()
    assert len(sides[0] | sides[1]) == 8
    for which in ("tables", "tables-varied", "held-out-tables", "held-out-tables-varied"):
        for line in LISTS[which]:
            assert isinstance(problem_of(line), Table)
        assert len(set(LISTS[which])) == len(LISTS[which])


def test_the_optimizer_is_told_of_the_row_that_was_measured() -> None:
    ended = run("random", problem_of("table SS-O Performance answers rows"), 1, 12)
    assert len(ended.values) == 13
    assert all(value > 0 for value in ended.values)


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(TEXT)
    command = ["bench", "random", "dds", "--table", str(path), "--evaluations", "3", "--seeds", "1", "--workers", "1"]
    done = CliRunner().invoke(main.app, [*command, "--output", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["problems"] == [f"table {path} Latency", f"table {path} Throughput"]
    assert set(DEFAULTS) == {"good", "median", "bad"}
