"""The command line: input that it refuses, and its messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from framework.cli.session import CLOSED

ROOT = Path(__file__).resolve().parents[2]
TAILOR = [sys.executable, "-c", "from framework.cli.main import main; main()"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["compare"], "Missing argument"),
        (["tune", "--no-such-option"], "No such option"),
        (["tune", "apps/social-network", "--iterations", "many"], "allowed: an integer, or auto"),
        (["no-such-command"], "No such command"),
        (["tune", "apps/nothing"], "apps/nothing"),
        (["tune", "apps/social-network", "--reduce", "hard"], "critical-path"),
        (["tune", "apps/social-network", "--reduce", "bottlenecks"], "bottlenecks:FILE, screening:STUDY"),
        (["tune", "apps/social-network", "--reduce", "soft:x"], "bottlenecks:FILE, screening:STUDY"),
        (["tune", "apps/social-network", "--iterations", "0"], "--iterations: found 0; allowed: at least 1"),
        (["tune", "apps/social-network", "--minimal", "7"], "--minimal: found 7; allowed: 0 to 3"),
        (["tune", "apps/social-network", "--placement", "x"], "unknown --placement 'x'; known: also, none, only"),
        (
            ["tune", "apps/social-network", "--profile", "x.jsonl"],
            "--profile says where services are best placed; allowed: with --placement also or only",
        ),
        (
            ["twin", "what-if", "apps/social-network", "--replications", "1"],
            "--replications, --duration: found 1, 30 s; allowed: at least 2, 1 s",
        ),
        (["tune", "apps/social-network", "--threshold", "share"], "--threshold: found 'share'"),
        (
            ["tune", "apps/social-network", "--subject-to", "p99 = 3"],
            "--subject-to: found 'p99 = 3'; allowed: a quantity",
        ),
        (["tune", "apps/social-network", "--also", "memory"], "--also: found 'memory'; allowed: mean, median"),
        (["analyze", "README.md", "--format", "xml"], "known: jaeger"),
        (["analyze", "README.md"], "README.md"),
        (["analyze", "README.md", "--peer", "(mc_=cache"], "--peer: found '(mc_'; allowed: a regular expression"),
        (["forget", "--samples", "30"], "--samples: found '30'; allowed: a number with its unit"),
        (["import", "README.md"], "allowed: a file that `tailor export` wrote"),
        (["compare", "x", "y"], "tailor studies"),
    ],
)
def test_bad_input_is_one_clear_message(tmp_path: Path, arguments: list[str], says: str) -> None:
    environment = {"TAILOR_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*TAILOR, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    said = " ".join(done.stderr.split())
    assert done.returncode == (6 if arguments[0] == "compare" and len(arguments) > 1 else 2), said
    assert "Traceback" not in said
    assert says in said


@pytest.mark.parametrize("arguments", [["optimizers"], ["init", "--no-proof", "shop"], ["init", "--json", "shop"]])
def test_a_reader_that_goes_away_is_no_bug(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "compose.yaml").write_text("services: {web: {image: 'nginx:1.22', ports: [80]}}\n")
    environment = {
        "TAILOR_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT),
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
    }  # fmt: skip
    with subprocess.Popen(
        [*TAILOR, *arguments], cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == CLOSED, said
    assert "Traceback" not in said
    assert "Exception" not in said
