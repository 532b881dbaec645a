"""``tailor serve`` as a process: it says where it is, refuses a port that is taken, and leaves nothing half-done."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest

from framework.config.twin_file import twin_path, twin_text
from tests.serving import JOB, PATIENCE_S
from tests.unit.test_twin_testbed import SLICE, TWIN

ROOT = Path(__file__).resolve().parents[2]
TAILOR = [sys.executable, "-c", "from framework.cli.main import main; main()"]
get = partial(httpx.get, timeout=PATIENCE_S)


@dataclass
class Serving:
    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    def address(self) -> str:
        return self.wait_for(lambda: next((m[0] for line in self.said if (m := re.search(r"http://\S+", line))), ""))

    def wait_for(self, ask: object) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if found := ask():  # type: ignore[operator]
                return str(found)
            assert self.process.poll() is None, "".join(self.said)
            time.sleep(0.05)
        raise TimeoutError("".join(self.said))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    shutil.copytree(SLICE.directory, tmp_path / "apps" / "url-shortener")
    twin_path(tmp_path / "apps" / "url-shortener").write_text(twin_text(TWIN))
    return os.environ | {
        "TAILOR_HOME": str(tmp_path / "home"), "TAILOR_APPLICATIONS": str(tmp_path / "apps"),
        "DOCKER_HOST": "unix:///nonexistent.sock", "PYTHONPATH": str(ROOT),
    }  # fmt: skip


@contextmanager
def serve(environment: dict[str, str], *arguments: str) -> Iterator[Serving]:
    process = subprocess.Popen(
        [*TAILOR, "serve", *arguments], env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    serving = Serving(process)
    assert process.stderr is not None
    reading = threading.Thread(target=lambda lines: serving.said.extend(lines), args=(process.stderr,), daemon=True)
    reading.start()
    try:
        yield serving
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reading.join()
        process.stderr.close()


def test_ctrl_c_pauses_what_runs_and_the_next_one_goes_on(environment: dict[str, str]) -> None:
    with serve(environment, "--port", "0") as first:
        address = first.address()
        asked = {**JOB, "iterations": 30, "pairs": 12}
        study = httpx.post(f"{address}/v1/studies", json=asked, timeout=PATIENCE_S).json()["study"]
        first.wait_for(lambda: get(f"{address}/v1/studies/{study}").json()["state"] in ("running", "completed"))
        first.process.send_signal(signal.SIGINT)
        first.process.wait(PATIENCE_S)
        assert "waiting for the worker" in "".join(first.said)
    with serve(environment, "--port", "0") as second:
        address = second.address()

        def ended() -> bool:
            return bool(get(f"{address}/v1/studies/{study}").json()["state"] == "completed")

        second.wait_for(ended)
        trials = get(f"{address}/v1/studies/{study}/trials", params={"limit": 200}).json()["items"]
        finished = [one for one in trials if one["state"] != "aborted"]
        assert sum(one["purpose"] == "search" for one in finished) == 30, "each once"


def test_a_port_that_is_taken_is_named(environment: dict[str, str]) -> None:
    with serve(environment, "--port", "0", "--no-worker") as first:
        port = first.address().rpartition(":")[2]
        done = subprocess.run(
            [*TAILOR, "serve", "--port", port], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert f"127.0.0.1:{port} cannot be used" in done.stderr
