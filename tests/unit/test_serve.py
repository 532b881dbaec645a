"""``tailor serve`` as a process: it says where it is, refuses a port that is taken, and leaves nothing half-done."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
            if answer := ask():  # type: ignore[operator]
                return str(answer)
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
            answer = get(f"{address}/v1/studies/{study}")
            assert answer.status_code == 200, answer.text + "".join(second.said)
            return bool(answer.json()["state"] == "completed")

        second.wait_for(ended)
        trials = get(f"{address}/v1/studies/{study}/trials", params={"limit": 200}).json()["items"]
        finished = [trial for trial in trials if trial["state"] != "aborted"]
        assert sum(trial["purpose"] == "search" for trial in finished) == 30, "each once"


def test_sigterm_ends_it_whatever_is_being_answered(environment: dict[str, str]) -> None:
    """Event streams, answers that take long, and requests that are not complete."""
    with serve(environment, "--port", "0") as serving, ExitStack() as stack:
        address = serving.address()
        study = httpx.post(f"{address}/v1/studies", json=JOB, timeout=PATIENCE_S).json()["study"]
        serving.wait_for(lambda: get(f"{address}/v1/studies/{study}").json()["state"] == "completed")
        client = stack.enter_context(httpx.Client(base_url=address, timeout=PATIENCE_S))
        for _ in range(20):
            stream = stack.enter_context(client.stream("GET", f"/v1/studies/{study}/events"))
            assert stream.status_code == 200
        asking = [
            threading.Thread(target=_status, args=(f"{address}/{path}",))
            for path in (f"v1/studies/{study}/report", f"studies/{study}", "optimizers", f"v1/studies/{study}/export")
        ]
        for thread in asking:
            thread.start()
        host, _, port = address.removeprefix("http://").partition(":")
        half = stack.enter_context(socket.create_connection((host, int(port))))
        half.sendall(b"POST /v1/studies HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        time.sleep(0.5)
        before = children(serving.process.pid)
        began = time.monotonic()
        serving.process.send_signal(signal.SIGTERM)
        serving.process.wait(PATIENCE_S)
        took = time.monotonic() - began
        print(f"ended after {took:.1f} s")
        assert took < 30, "whatever the machine; the rest is measured"
        assert before, "somebody computed an answer"
        assert not [
            pid for pid in before if Path(f"/proc/{pid}/cmdline").exists() and b"framework.api.child" in cmdline(pid)
        ]
        for thread in asking:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] or [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _status(address: str) -> int:
    try:
        return get(address).status_code
    except httpx.HTTPError:
        return 0


def test_a_port_that_is_taken_is_named(environment: dict[str, str]) -> None:
    with serve(environment, "--port", "0", "--no-worker") as first:
        port = first.address().rpartition(":")[2]
        done = subprocess.run(
            [*TAILOR, "serve", "--port", port], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 2
        assert f"127.0.0.1:{port} cannot be used" in done.stderr
