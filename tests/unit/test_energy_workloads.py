"""The workloads of experiments/energy: their files fit together, and their server runs pieces as it says."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from framework.compose.gate import CLOSED
from framework.config.application import load_application
from framework.config.knowledge import load_service_types
from framework.config.space import search_space
from framework.testbeds.docker.builds import Build
from framework.testbeds.docker.compose_config import ComposeConfig
from tests.own_applications import needs_compose

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "experiments" / "energy" / "workloads"
NAMES = sorted(path.parent.name for path in HERE.glob("*/application.yaml"))
LIMIT_S = 60.0
PLACES = ("block_read", "block_written", "device_read", "device_written")
GATED = "echo begin >> ../../log\nwhile [ ! -e ../../go ]; do sleep 0.02; done\necho end >> ../../log\n"


# ---------------------------------------------------------------------------------------------- the files


def test_the_kinds_of_the_source_are_there() -> None:
    assert NAMES == ["alignment", "checkpoint", "deduplicate", "index", "store", "transactions", "wordcount"]


@pytest.mark.parametrize("name", NAMES)
def test_an_image_has_what_its_programs_need(name: str) -> None:
    directory = HERE / name
    recipe = (directory / "Dockerfile").read_text()
    assert recipe.startswith("FROM debian:bookworm-slim\n")
    assert recipe.count("apt-get ") == recipe.count("apt-get -o Acquire::Retries=5 ")
    [copied] = re.findall(r"^COPY (.+) /workload/$", recipe, re.MULTILINE)
    ours = {path.name for path in directory.iterdir()}
    own = {"Dockerfile", "application.yaml", "compose.yaml", "workload.yaml"}
    assert set(copied.split()) == ours - own, "what is copied is what is there"
    for script in ("work", "start"):
        assert script not in ours or os.access(directory / script, os.X_OK), script
    assert "\nUSER " in recipe, "a piece does not run as root"


@needs_compose
@pytest.mark.parametrize("name", NAMES)
def test_a_workload_is_an_application_of_which_only_the_slots_can_be_tuned(name: str) -> None:
    application = load_application(HERE / name, ComposeConfig())
    assert application.name == name
    assert application.tracing is None
    assert CLOSED.admitted(application).refused == ()
    assert Build.of(application, "worker").is_inside(application.roots)
    assert search_space(application, load_service_types(), cores=2, memory_mib=4096).names == ("worker.slots",)
    assert application.workload.rate_rps * 30 >= 10, "pieces of a window"


@needs_compose
@pytest.mark.parametrize("name", ["checkpoint", "store", "transactions"])
def test_in_memory_the_same_work_is_done(name: str) -> None:
    application = load_application(HERE.parent / "in-memory" / name, ComposeConfig())
    on_disk = load_application(HERE / name, ComposeConfig())
    assert application.name == f"{name}-in-memory"
    assert CLOSED.admitted(application).refused == ()
    assert Build.of(application, "worker").is_inside(application.roots)
    assert (application.workload.rate_rps, application.workload.document) == (
        on_disk.workload.rate_rps, on_disk.workload.document,
    )  # fmt: skip
    [mount] = [volume for volume in application.compose["services"]["worker"]["volumes"] if volume["target"] == "/work"]
    assert mount["type"] == "tmpfs"
    same = ("build", "command", "environment", "init")
    for key in same:
        assert application.compose["services"]["worker"].get(key) == on_disk.compose["services"]["worker"].get(key)


@needs_compose
def test_the_image_of_a_workload_changes_with_its_programs(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(HERE, tmp_path / "workloads"))
    digests = set()
    for addition in ("", "# another line\n"):
        with (copy / "wordcount" / "work").open("a") as file:
            file.write(addition)
        digests.add(Build.of(load_application(copy / "wordcount", ComposeConfig()), "worker").digest())
    assert len(digests) == 2


@needs_compose
@pytest.mark.parametrize("name", NAMES)
def test_the_same_work_can_be_done_in_memory(name: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(HERE, tmp_path / "workloads"))
    path = copy / name / "application.yaml"
    text = path.read_text()
    assert "compose: [../compose.yaml, compose.yaml]" in text
    path.write_text(text.replace("compose.yaml]", "compose.yaml, ../tmpfs.yaml]"))
    application = load_application(copy / name, ComposeConfig())
    mounts = CLOSED.admitted(application).document["services"]["worker"]["volumes"]
    assert sorted((mount["type"], mount["target"]) for mount in mounts) == [("bind", "/piece.py"), ("tmpfs", "/work")]
    assert CLOSED.admitted(application).refused == ()


# ---------------------------------------------------------------------------------------------- the check


def measured(written: float, own: int | None) -> dict[str, Any]:
    numbers = dict.fromkeys(("user_s", "system_s", "application_read", *PLACES), 0.5)
    account = {} if own is None else {"read": 0, "written": own}
    return {"seed": 2, "seconds": 1.0, **numbers, "application_written": written, "account": account}


def test_the_check_compares_bytes_only_where_a_program_says_them() -> None:
    check = runpy.run_path(str(HERE / "check"))
    assert check["disagreements"]([measured(1009.0, 1000), measured(991.0, 1000), measured(5.0, None)]) == []
    assert check["disagreements"]([measured(1011.0, 1000)]) == [
        "seed 2: written: the program says 1,000 bytes, the kernel 1,011"
    ]
    assert "| some | 1.00 / 1.00 | 0.50 / 0.50 |" in check["table"]({"some": [measured(1.0, 1), measured(1.0, 1)]})


def test_the_table_of_the_readme_is_that_of_the_kept_results() -> None:
    check = runpy.run_path(str(HERE / "check"))
    results = check["kept_results"]()
    assert sorted(results) == NAMES
    assert check["table"](results) in (HERE / "README.md").read_text()
    assert [text for pieces in results.values() for text in check["disagreements"](pieces)] == []


def test_the_check_says_what_it_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["check", "--help"])
    with pytest.raises(SystemExit):
        runpy.run_path(str(HERE / "check"), run_name="__main__")
    assert "usage: check" in capsys.readouterr().out


# ---------------------------------------------------------------------------------------------- the server


def program(directory: Path, name: str, text: str) -> None:
    path = directory / "programs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


@contextmanager
def served(directory: Path, slots: int = 1) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run the server; yields its process and its port."""
    (directory / "work").mkdir()
    process = subprocess.Popen(
        [sys.executable, HERE / "piece.py", "--programs", directory / "programs", "--directory", directory / "work",
         "--port", "0"],
        env={**os.environ, "SLOTS": f"{slots}"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        yield process, int(line.rpartition(" ")[2]) if line else 0
    finally:
        process.terminate()
        process.wait(LIMIT_S)
        process.stdout.close()
        process.stderr.close()


def ask(port: int, path: str) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def in_background(port: int, path: str, replies: list[tuple[int, Any]]) -> threading.Thread:
    thread = threading.Thread(target=lambda: replies.append(ask(port, path)), daemon=True)
    thread.start()
    return thread


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.01)


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# ---------------------------------------------------------------------------------------------- one piece


def test_a_piece_runs_with_its_seed_and_says_what_it_did(tmp_path: Path) -> None:
    program(tmp_path, "work", 'echo some words\necho "{\\"seed\\": $1, \\"written\\": 12}"\n')
    with served(tmp_path) as (_, port):
        status, said = ask(port, "/piece?seed=7")
        assert ask(port, "/healthy") == (200, {"healthy": True})
    assert status == 200
    assert (said["seed"], said["status"], said["output"]) == (7, 0, [])
    assert said["account"] == {"seed": 7, "written": 12}
    assert said["seconds"] > 0
    assert said["user_s"] + said["system_s"] > 0


def test_each_piece_finds_an_empty_directory(tmp_path: Path) -> None:
    program(tmp_path, "work", 'test -z "$(ls)"\nstatus=$?\ntouch left\nexit $status\n')
    with served(tmp_path) as (_, port):
        assert [ask(port, "/piece?seed=1")[0] for _ in range(2)] == [200, 200]


def test_a_piece_that_fails_tells_its_last_lines(tmp_path: Path) -> None:
    program(tmp_path, "work", "seq 1 100000\necho the disk is full >&2\nexit 3\n")
    with served(tmp_path) as (_, port):
        status, said = ask(port, "/piece?seed=1")
    assert (status, said["status"]) == (500, 3)
    assert said["output"][-3:] == ["99999", "100000", "the disk is full"]
    assert len(said["output"]) == 20


def test_a_program_that_cannot_be_started_is_an_error_and_frees_its_slot(tmp_path: Path) -> None:
    program(tmp_path, "work", "true\n")
    (tmp_path / "programs" / "work").chmod(0o644)
    with served(tmp_path) as (_, port):
        assert ask(port, "/piece?seed=1")[0] == 500
        (tmp_path / "programs" / "work").chmod(0o755)
        assert ask(port, "/piece?seed=1")[0] == 200


@pytest.mark.parametrize("seed", ["-1", "1.5", "\u0663", "1e3", "9" * 16, "1;ls", " 1"])
def test_a_seed_that_is_no_number_is_refused(tmp_path: Path, seed: str) -> None:
    program(tmp_path, "work", "touch ../../ran\n")
    with served(tmp_path) as (_, port):
        status, said = ask(port, f"/piece?seed={quote(seed)}")
    assert (status, said["error"]) == (400, "seed")
    assert not (tmp_path / "ran").exists()


def test_without_a_seed_it_is_one_and_other_paths_are_none(tmp_path: Path) -> None:
    program(tmp_path, "work", "true\n")
    with served(tmp_path) as (_, port):
        assert ask(port, "/piece")[1]["seed"] == 1
        assert ask(port, "/pieces")[0] == 404


# ---------------------------------------------------------------------------------------------- several at once


def test_a_second_piece_waits_for_the_first(tmp_path: Path) -> None:
    program(tmp_path, "work", GATED)
    replies: list[tuple[int, Any]] = []
    with served(tmp_path) as (_, port):
        threads = [in_background(port, "/piece?seed=1", replies) for _ in range(2)]
        until(lambda: "begin" in lines(tmp_path / "log"))
        time.sleep(0.2)  # in which a server that let both begin would do so
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join(LIMIT_S)
    assert [status for status, _ in replies] == [200, 200]
    assert lines(tmp_path / "log") == ["begin", "end", "begin", "end"]
    assert {said["slot"] for _, said in replies} == {0}


def test_two_slots_run_two_pieces_in_places_of_their_own(tmp_path: Path) -> None:
    program(tmp_path, "work", GATED)
    replies: list[tuple[int, Any]] = []
    with served(tmp_path, slots=2) as (_, port):
        threads = [in_background(port, "/piece?seed=1", replies) for _ in range(2)]
        until(lambda: lines(tmp_path / "log") == ["begin", "begin"])
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join(LIMIT_S)
    assert {said["slot"] for _, said in replies} == {0, 1}


def test_a_piece_whose_client_went_away_ends_by_itself_and_one_that_waited_is_not_begun(tmp_path: Path) -> None:
    program(tmp_path, "work", GATED)
    with served(tmp_path) as (_, port):
        first, second = (HTTPConnection("127.0.0.1", port, timeout=LIMIT_S) for _ in range(2))
        first.request("GET", "/piece?seed=1")
        until(lambda: lines(tmp_path / "log") == ["begin"])
        second.request("GET", "/piece?seed=2")
        first.close()
        second.close()
        (tmp_path / "go").touch()
        assert ask(port, "/piece?seed=3")[0] == 200
    assert lines(tmp_path / "log") == ["begin", "end", "begin", "end"]


# ---------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_piece_and_what_it_started(tmp_path: Path, number: signal.Signals) -> None:
    program(tmp_path, "work", "sleep 1000 &\necho $! > ../../child\necho $$ > ../../parent\nwait\n")
    with served(tmp_path) as (process, port):
        connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        connection.request("GET", "/piece?seed=1")
        until(lambda: len(lines(tmp_path / "parent")) == 1)
        process.send_signal(number)
        assert process.wait(LIMIT_S) == 0
        connection.close()
    pids = [int(*lines(tmp_path / name)) for name in ("child", "parent")]
    until(lambda: not any(map(is_running, pids)))


def test_a_companion_is_started_first_and_ended_last(tmp_path: Path) -> None:
    program(
        tmp_path,
        "start",
        "trap 'echo companion ended >> ../log; exit 0' TERM\necho preparing\necho up > ../log\necho ready\n"
        "while :; do sleep 0.05; done\n",
    )
    program(
        tmp_path,
        "work",
        "trap 'echo piece ended >> ../../log; exit 1' TERM\necho begun >> ../../log\nsleep 1000 & wait\n",
    )
    with served(tmp_path) as (process, port):
        connection = HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        connection.request("GET", "/piece?seed=1")
        until(lambda: "begun" in lines(tmp_path / "log"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
        connection.close()
    assert (tmp_path / "log").read_text().splitlines() == ["up", "begun", "piece ended", "companion ended"]


def test_a_companion_that_ends_before_it_is_ready_ends_the_server(tmp_path: Path) -> None:
    program(tmp_path, "start", "echo no space left\nexit 1\n")
    program(tmp_path, "work", "true\n")
    with served(tmp_path) as (process, port):
        assert port == 0
        assert process.wait(LIMIT_S) == 1
        assert process.stderr is not None
        assert process.stderr.read().split("\n")[:2] == ["no space left", "start: it ended before it was ready"]


def test_a_number_of_slots_below_one_is_refused(tmp_path: Path) -> None:
    with served(tmp_path, slots=0) as (process, _):
        assert process.wait(LIMIT_S) == 2
        assert process.stderr is not None
        assert "SLOTS: found 0" in process.stderr.read()
