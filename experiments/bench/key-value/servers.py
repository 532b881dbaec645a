"""The key-value servers that are compared: how each is started on its processor, filled, and asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
RECORD_BYTES = 1024
START_S = 30.0
CPUS = (0, 1)  # of the servers, of the client


@dataclass(frozen=True)
class Server:
    """A server to measure: its words with {port}, {socket} and {keys}, and what it is asked over."""

    name: str
    protocol: str
    words: Sequence[str]
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)


def table(name: str, port: int, directory: str = "", **environment: str) -> Server:
    """Return our server with one thread, which keeps nothing on a disk unless it has a directory."""
    common = {
        "BINARY_ADDRESS": f"127.0.0.1:{port}", "THREADS": "1", "BATCH": "16", "BUFFER_KIB": "128", "TRACING": "off",
        "DIRECTORY": directory, "SNAPSHOT_SECONDS": "0", "RECORDS": "{keys}",
        "API_ADDRESS": f"127.0.0.1:{port + 100}", "ADMIN_ADDRESS": f"127.0.0.1:{port + 200}",
    }  # fmt: skip
    return Server(name, "native", ["{programs}/key-value", "key-value"], port, common | environment)


def servers(directory: Path) -> list[Server]:
    """Return all servers; those with "log" in their name keep every put on the disk, synced once a second."""
    common = ["--bind", "127.0.0.1", "--port", "{port}", "--maxclients", "20000", "--save", "", "--dir", str(directory)]
    redis = ["redis-server", *common]
    return [
        table("table", 17070),
        Server("redis", "redis", [*redis, "--appendonly", "no"], 17071),
        Server(
            "memcached", "memcached",
            ["memcached", "-l", "127.0.0.1", "-p", "{port}", "-t", "1", "-m", "{mib}", "-c", "20000", "-u", "nobody"],
            17072,
        ),
        table("table log", 17073, str(directory), FSYNC="interval"),
        Server(
            "redis log", "redis",
            [*redis, "--appendonly", "yes", "--appendfsync", "everysec", "--appenddirname", "aof"], 17074,
        ),
    ]  # fmt: skip


@contextmanager
def running(server: Server, keys: int, programs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server on its processor until the end."""
    values = {"port": server.port, "keys": keys, "programs": programs, "mib": 64 + 2 * keys * RECORD_BYTES // 2**20}
    words = [word.format(**values) for word in server.words]
    program = shutil.which(words[0])
    if program is None:
        raise SystemExit(f"{words[0]} is not here: scripts/packages redis-server memcached, or --without {server.name}")
    environment = os.environ | {name: text.format(**values) for name, text in server.environment.items()}
    process = subprocess.Popen(
        [program, *words[1:]], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {CPUS[0]}),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(
    server: Server, options: Sequence[str], programs: Path, meanwhile: Callable[[], object] | None = None
) -> dict[str, Any]:
    """Run the client on its processor, and return what it says; ``meanwhile`` is called five times a second until then.

    Raises SystemExit where it fails.
    """
    words = [
        str(programs / "key-value-load"), "-address", f"127.0.0.1:{server.port}", "-protocol", server.protocol,
        *options,
    ]  # fmt: skip
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {CPUS[1]}),
    ) as client:  # fmt: skip
        while meanwhile is not None and client.poll() is None:
            meanwhile()
            time.sleep(0.2)
        output, errors = client.communicate()
    if client.returncode:
        raise SystemExit(f"{server.name}: {errors.strip()}")
    said: dict[str, Any] = json.loads(output)
    return said


def fill(server: Server, keys: int, programs: Path) -> None:
    """Store every key, once the server answers."""
    until = time.monotonic() + START_S
    options = ["-fill", "-window", "0s", "-keys", str(keys), "-batch", "16", "-depth", "4", "-connections", "8"]
    while True:
        try:
            ask(server, options, programs)
            return
        except SystemExit as error:
            if "refused" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.2)


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    """Return the memory of a process that is resident."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def build(target: Path) -> None:
    """Build server and client."""
    subprocess.run(["go", "build", "-o", f"{target}/", "./key-value/cmd/..."], cwd=ROOT / "apps", check=True)
