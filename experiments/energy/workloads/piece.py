"""Server of one workload: each request runs its program ``work`` once, to the end.

It is the first process of its container and waits for what it starts.  The kernel then adds the I/O of programs that
have ended to the server's own (/proc/1/io), where Tailor finds it, and their CPU time to the container's group.
Python's standard library only: the file is mounted into images that have nothing else.

    GET /piece?seed=7   200 and what the piece did, or 500 and the last lines of its output
    GET /healthy        200

Beside ``work`` there may be a program ``start``.  It is started first, and may stay: a database server, for example.
The server listens once ``start`` has written the line "ready".
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEPT = 8192  # bytes from the end of a program's output
LAST_LINES = 20
ENDING_S = 5.0  # between SIGTERM and SIGKILL
DIGITS = 15  # of a seed


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of work that has ended.

    ``seconds``: of the clock.  ``user_s``, ``system_s``: CPU time of the program and of those that it waited for.
    ``status``: the program's exit status, or minus the signal that ended it.  ``account``: what the program says that
    it did.  ``output``: the last lines, where it failed.
    """

    seed: int
    slot: int
    seconds: float
    user_s: float
    system_s: float
    status: int
    account: Mapping[str, Any] = field(default_factory=dict)
    output: tuple[str, ...] = ()


class Stopping(Exception):
    """The server ends, and starts nothing any more."""


class ClientGone(Exception):
    """Nobody waits for the reply of a piece that has not begun."""


class Programs:
    """The programs that this server has started and not yet waited for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._stopping = False

    def begin(self, command: list[str], directory: Path) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own.  Raises Stopping, OSError."""
        with self._changed:
            if self._stopping:
                raise Stopping
            process = subprocess.Popen(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            self._running[process.pid] = process
        return process

    def end(self, process: subprocess.Popen[bytes]) -> tuple[int, float, float]:
        """Wait for a program; return its exit status and its CPU seconds (user, system)."""
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its number stays its own until the next lines
        with self._changed:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            del self._running[process.pid]
            self._changed.notify_all()
        return process.returncode, usage.ru_utime, usage.ru_stime

    def bury(self) -> None:
        """Wait for programs that the first process of a container has inherited, so that their I/O counts."""
        with self._changed:
            while True:
                try:
                    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                except ChildProcessError:
                    return
                if ended is None or ended.si_pid in self._running:
                    return
                os.waitpid(ended.si_pid, 0)

    def stop(self, keep: subprocess.Popen[bytes] | None = None) -> None:
        """End all programs but one, by SIGTERM and then SIGKILL, and start no more."""
        with self._changed:
            self._stopping = True
            for number in (signal.SIGTERM, signal.SIGKILL):
                for pid in self._others(keep):
                    os.killpg(pid, number)
                if self._changed.wait_for(lambda: not self._others(keep), ENDING_S):
                    return

    def _others(self, keep: subprocess.Popen[bytes] | None) -> list[int]:
        return [pid for pid, process in self._running.items() if process is not keep]


class Workload:
    """One workload.  ``programs``: the directory of ``work``.  ``directory``: where it works, a place for each slot.

    ``slots``: pieces at the same time.
    """

    def __init__(self, programs: Path, directory: Path, slots: int) -> None:
        self._programs, self._directory = programs, directory
        self._started = Programs()
        self._companion: subprocess.Popen[bytes] | None = None
        self._free: queue.Queue[int] = queue.Queue()
        for slot in range(slots):
            self._free.put(slot)

    def start(self) -> None:
        """Run ``start``, where there is one, until it is ready.  Raises OSError; SystemExit where it ends before."""
        program = self._programs / "start"
        if not program.exists():
            return
        process = self._companion = self._started.begin([str(program)], self._directory)
        assert process.stdout is not None
        ready = False
        while not ready and (line := process.stdout.readline()):
            ready = line.strip() == b"ready"
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
        threading.Thread(target=self._follow, args=(process,), daemon=True).start()
        if not ready:
            sys.exit("start: it ended before it was ready")

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
        self._started.end(process)

    def run(self, seed: int, client: socket.socket) -> Piece:
        """Run one piece when a slot is free.  Raises ClientGone, Stopping, OSError."""
        slot = self._free.get()
        try:
            if gone(client):
                raise ClientGone
            return self._run(seed, slot)
        finally:
            self._free.put(slot)

    def _run(self, seed: int, slot: int) -> Piece:
        place = self._directory / f"slot-{slot}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        began = time.monotonic()
        process = self._started.begin([str(self._programs / "work"), str(seed)], place)
        assert process.stdout is not None
        output = b""
        while part := os.read(process.stdout.fileno(), 1 << 16):
            output = (output + part)[-KEPT:]
        process.stdout.close()
        status, user_s, system_s = self._started.end(process)
        self._started.bury()
        seconds = time.monotonic() - began
        lines = output.decode(errors="replace").splitlines()[-LAST_LINES:]
        done = Piece(seed, slot, round(seconds, 6), round(user_s, 6), round(system_s, 6), status, account(lines))
        return done if status == 0 else replace(done, output=tuple(lines))

    def stop(self) -> None:
        """End the pieces that run, and then ``start``."""
        self._started.stop(keep=self._companion)
        self._started.stop()


def account(lines: list[str]) -> dict[str, Any]:
    """Return the JSON object that a program's last line is; empty where it is none."""
    try:
        said = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def gone(client: socket.socket) -> bool:
    """Return whether a client has closed its connection."""
    try:
        return client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class Handler(BaseHTTPRequestHandler):
    """One connection.  A subclass has the workload."""

    protocol_version = "HTTP/1.1"
    workload: Workload

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/healthy":
            self._reply(200, {"healthy": True})
        elif address.path == "/piece":
            self._piece(parse_qs(address.query).get("seed", ["1"])[-1])
        else:
            self._reply(404, {"error": "no such path", "allowed": "/piece?seed=N, /healthy"})

    def _piece(self, text: str) -> None:
        if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
            self._reply(400, {"error": "seed", "allowed": f"a number of at most {DIGITS} digits"})
            return
        try:
            piece = self.workload.run(int(text), self.connection)
        except ClientGone:
            self.close_connection = True
        except Stopping:
            self._reply(503, {"error": "the server ends"})
        except OSError as error:
            self._reply(500, {"error": str(error)})
        else:
            self._reply(200 if piece.status == 0 else 500, asdict(piece))

    def _reply(self, status: int, content: Mapping[str, Any]) -> None:
        body = json.dumps(content).encode() + b"\n"
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:  # the client went away
            self.close_connection = True

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing of requests: that would be I/O too."""


class Server(ThreadingHTTPServer):
    """A thread for each connection; a piece whose client went away ends by itself."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Be silent where a connection breaks; else say what went wrong."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def serve(workload: Workload, port: int) -> None:
    """Serve until SIGTERM or SIGINT, and then end all that runs."""

    def ended(number: int, frame: FrameType | None) -> None:
        sys.exit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ended)
    try:
        workload.start()
        server = Server(("", port), type("WorkloadHandler", (Handler,), {"workload": workload}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"listening on port {server.server_address[1]}", flush=True)
        while True:
            signal.pause()
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        workload.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves one workload: a request is one piece of its work.")
    parser.add_argument("--programs", type=Path, default=Path("/workload"), help="directory of work, and of start")
    parser.add_argument("--directory", type=Path, default=Path("/work"), help="where they work")
    parser.add_argument("--port", type=int, default=8080, help="0: a free one")
    options = parser.parse_args()
    slots = int(os.environ.get("SLOTS", "1"))
    if slots < 1:
        parser.error(f"SLOTS: found {slots}; allowed: 1 and more")
    serve(Workload(options.programs, options.directory, slots), options.port)


if __name__ == "__main__":
    main()
