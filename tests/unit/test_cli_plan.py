"""``tailor plan`` shows plans, their reasons and their prices' source, and refuses what it cannot read."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from framework.cli.main import app
from framework.errors import FieldError, FileError, TailorError, UnknownName
from framework.model.capacity import Interval
from framework.report.plan_words import range_in_words

EXAMPLES = Path(__file__).parents[2] / "examples"
COMMAND = [
    "plan", str(EXAMPLES / "need.yaml"), "--catalogue", str(EXAMPLES / "machines.yaml"), "--node", "16:1123453",
    "--node-writes", "16:655631", "--draws", "100",
]  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAILOR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    return tmp_path / "home"


def run(*words: str, command: list[str] = COMMAND) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*command, *words])
    if isinstance(result.exception, TailorError):
        raise result.exception
    return result.exit_code, result.output


def test_plans_are_shown() -> None:
    status, text = run()
    assert status == 0
    words = " ".join(text.split())
    assert "reads: linear law of 1 point; on 16 cores 1,123,453/s" in words
    assert "cheapest: " in words
    assert "EUR/year" in words
    assert "prices of 2021: A. Gonçalves" in words
    assert "20 % more reads" in words
    assert "year 5: flexible-32" in words
    assert "128 cores are more than 4 times the 16 measured" in words


def test_json_has_everything() -> None:
    status, text = run("--json", "--extrapolate", "--speed", "*=0.9,1,1.1")
    assert status == 0
    document = json.loads(text)
    first = document["plans"]["plans"][0]
    assert first["nodes"] * first["machine"]["price_per_hour"] == pytest.approx(first["cost_per_hour"])
    assert {entry["machine"]["name"]: entry["extrapolated"] for entry in document["plans"]["plans"]} == {
        "flexible-16-1024": False, "flexible-32": False, "flexible-64": False, "bare-metal-128": True,
    }  # fmt: skip
    assert first["speed"] == {"low": 0.9, "likely": 1.0, "high": 1.1}
    assert document["reads"]["name"] == "linear"
    assert document["media"] is None


def test_no_plan_is_said_first_with_what_would_help_and_exits_with_1() -> None:
    status, text = run("--most-nodes", "1")
    assert status == 1
    verdict, refused = text.index("no machine type of the catalogue meets the need"), text.index("refused: 1 type: ")
    assert verdict < text.index("what would help: --most-nodes, or less headroom (3 types)") < refused
    assert "1 types" not in text


def test_the_headline_says_what_the_plan_is_for_and_what_decides_it() -> None:
    _, text = run("--most-nodes", "1000000")
    words = text.splitlines()
    cheapest = next(number for number, line in enumerate(words) if line.startswith("cheapest: "))
    assert words[cheapest].endswith("(today, without growth)")
    assert words[cheapest + 1].startswith("enough for year 5 from the start: ")
    assert "cores of the cheapest plan's type: " in text or "flexible-16" in words[cheapest]
    assert "memory 92" not in text
    assert max(len(line) for line in words[:cheapest]) < 140
    assert "with a latency limit / 1.2: " in text
    _, capped = run("--most-nodes", "500")
    assert "no plan is enough in year 5, with at most 500 nodes" in capped


def test_machines_of_today_are_checked_before_anything_is_measured(tmp_path: Path) -> None:
    need = tmp_path / "need.yaml"
    need.write_text((EXAMPLES / "need.yaml").read_text() + "current: {machine: bare-metal, nodes: 2}\n")
    line = len(need.read_text().splitlines())
    with pytest.raises(FileError, match=rf"need.yaml: line {line}: current: found 'bare-metal'; .*did you mean 'bare-"):
        run(command=["plan", str(need), *COMMAND[2:4], "--measure", str(tmp_path / "no-application")])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--node", "16"], "node: found '16'; allowed: CORES:RPS"),
        (["--node", "16:-5"], "node: found '16:-5'"),
        (["--node", "0:5"], "1 to 4,096 cores"),
        (["--node", "4:1e300"], "RPS above 0 and up to 1e+12"),
        (["--node", "4:100:1e9"], "SPREAD (the standard error of RPS)"),
        (["--node", "4:100:100"], "SPREAD below RPS"),
        (["--draws", "1"], "draws: found 1; allowed: 100 to 20,000"),
        (["--speed", "*Gravitonn*=0.5"], "speeds: found '*Gravitonn*'; allowed: a pattern that fits"),
        (["--speed", "Graviton=2"], "a processor *, as the catalogue does not tell them"),
        (
            ["--region", "eu-west-1"],
            "region: found 'eu-west-1'; allowed: none with this catalogue, which has no regions",
        ),
        (["--page", "/nonexistent/x.html"], "page: found '/nonexistent/x.html'; allowed: a file in a directory that"),
        (["--node", "1:5,2:x"], "node: found '2:x'"),
        (["--node", "1:2:3:4"], "node: found '1:2:3:4'"),
        (["--node-writes", ""], "node_writes: found ''"),
        (["--speed", "arm"], "speed: found 'arm'"),
        (["--speed", "arm=0"], "speed: found 'arm=0'"),
        (["--speed", "arm=2,1,3"], "speed: found 'arm=2,1,3'"),
        (["--confidence", "2"], "confidence: found 2.0"),
        (["--currency", "USD"], "currency: found 'USD'; allowed: EUR"),
        (["--most-times", "0.5"], "most_times: found 0.5"),
        (["--most-times", "inf"], "most_times: found inf; allowed: 1 to 1,000"),
        (["--most-times", "nan"], "most_times: found nan"),
        (["--seed", "-1"], "seed: found -1"),
        (["--draws", "1000000"], "draws: found 1000000; allowed: 100 to 20,000"),
        (["--media"], "media: found \"a need without the key 'disk'\""),
    ],
)
def test_what_cannot_be_read_is_refused(words: list[str], says: str) -> None:
    with pytest.raises(FieldError) as caught:
        run(*words)
    assert says in str(caught.value)


def test_an_unknown_region_is_refused() -> None:
    with pytest.raises(UnknownName, match="unknown region 'nowhere'"):
        run("--region", "nowhere", command=[*COMMAND[:2], *COMMAND[4:]])


def test_memory_is_compared_with_disks(tmp_path: Path) -> None:
    need, machines = tmp_path / "need.yaml", tmp_path / "machines.yaml"
    need.write_text(
        "kind: need\nversion: 1\nreads: 1M/s\nstored: 1TB\nrecord: 1KiB\ndisk: {cached: 5%, hits: 80%, read: 100us}\n"
    )
    sizes = "cores: 16, ram_gib: 64, network_gbps: 25, disk_gib: 8000, disk_mb_s: 2000, iops: 500000"
    machines.write_text(
        "kind: machine-catalogue\nversion: 1\nprovider: p\npurchase: spot\ncurrency: EUR\nper: hour\n"
        f"priced_on: 2026\nsource: s\ntypes:\n  - {{name: m, price: 1.0, {sizes}}}\n".replace("2026", '"2026"')
    )
    command = ["plan", str(need), "--catalogue", str(machines), "--node", "16:1000000", "--draws", "100", "--media"]
    status, text = run(command=command)
    assert status == 0
    assert "100 TB" in text
    assert "disks are cheaper from 1 TB" in text


def test_the_command_is_registered() -> None:
    assert "plan" in getattr(typer.main.get_command(app), "commands")  # noqa: B009  # click's, not exported


def test_the_guide_shows_what_the_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    root = EXAMPLES.parent
    monkeypatch.chdir(root)
    lines = (root / "docs" / "guides" / "capacity.md").read_text().splitlines()
    shown = [line.strip() for line in lines if line.startswith("    tailor plan ")]
    promised = [line.strip() for line in lines if line.startswith("    cheapest: ")]
    answers = [run("--draws", "100", command=shlex.split(line)[1:]) for line in shown]
    assert [status for status, _ in answers] == [0, 0, 0]
    assert promised
    assert all(promise in answers[0][1] for promise in promised)


def test_each_plan_has_a_page_that_loads_nothing(home: Path, tmp_path: Path) -> None:
    _, text = run("--json")
    document = json.loads(text)
    page = Path(document["page"])
    assert page == home / "plans" / document["plan"] / "plan.html"
    html = page.read_text()
    cheapest = document["plans"]["plans"][0]
    assert f"{cheapest['nodes']} x {cheapest['machine']['name']}" in html
    assert html.count("<svg") >= 4
    assert not re.search(r'(src|href)="(https?:)?//', html)
    run("--page", str(tmp_path / "mine.html"))
    assert "<h1>" in (tmp_path / "mine.html").read_text()


def test_costs_without_an_upper_end_are_said_so() -> None:
    assert range_in_words(Interval(1_000.0, 2_000.0, 3_000.0)) == "1,000.00 to 3,000.00"
    assert range_in_words(Interval(1.0, 2.0, math.inf)) == "1.00 to no end"


@pytest.mark.parametrize("rps", [100, 1_000, 10_000])
def test_the_example_of_an_http_application_has_plans_where_one_and_two_cores_were_measured(rps: int) -> None:
    need = str(EXAMPLES / "need-http.yaml")
    points = f"1:{rps}:{rps / 50},2:{1.9 * rps}:{rps / 25}"
    status, text = run(command=["plan", need, "--node", points, "--region", "eu-west-1", "--draws", "200"])
    assert status == 0
    assert "cheapest: " in text
