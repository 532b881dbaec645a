"""The target of the attacks: ``tailor serve`` in a process of its own, with secrets that no answer may contain.

Each secret and each directory's name is random, so that one that is found in an answer came from nowhere else.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from framework.api.child import NICE as PAGES_NICE
from framework.api.large_spaces import NICE as ASKS_NICE
from framework.config.twin_file import twin_path, twin_text
from tests.campaign import ROOT, TAILOR
from tests.unit.test_twin_testbed import SLICE, TWIN

PATIENCE_S = 300.0  # with the service's beginning, and with a study on the twin
JOB: dict[str, Any] = {
    "application": "url-shortener", "testbed": "twin", "optimizer": "dds", "iterations": 3, "repetitions": 2,
    "pairs": 6, "window_s": 4, "warmup_s": 1, "rate_rps": 200, "drift_every": 0, "minimal": 0,
}  # fmt: skip
BROKEN = "kind: application\nversion: 1\nname: broken\nservices: {{}}\nnotes: {secret}\nworkload: [{secret}]\n"


@dataclass
class Place:
    """Directories and files with secrets.  ``hidden``: texts that may be in no answer; ``passwd``: a file outside of
    the operator's folders, under a name that requests may use (it leads there by a link).
    """

    root: Path
    hidden: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base = self.root / self._secret()  # in every path of the service's
        self.apps, self.home = self.base / "apps", self.base / "home"
        self.database = self.base / self._secret() / "tailor.db"
        outside = self.base / "outside"
        for directory in (self.apps, self.home, self.database.parent, outside):
            directory.mkdir(parents=True)
        (outside / "passwd").write_text(f"root:x:0:0:{self._secret()}:/root:/bin/sh\n" * 3)
        (outside / "results.json").write_text(json.dumps({"kind": "bottlenecks", "services": [self._secret()]}))
        (self.root / "named").symlink_to(outside)
        self.passwd = self.root / "named" / "passwd"
        shutil.copytree(SLICE.directory, self.apps / "url-shortener")
        twin_path(self.apps / "url-shortener").write_text(twin_text(TWIN))
        (self.apps / "url-shortener" / "notes.txt").write_text(self._secret())
        self._add_bad_applications()
        self.environment = {
            "TAILOR_HOME": str(self.home), "TAILOR_APPLICATIONS": str(self.apps), "TAILOR_REQUESTS_PER_S": "0",
            "TAILOR_DATABASE": f"sqlite:///{self.database}", "PGPASSWORD": self._secret(),
            "DOCKER_HOST": "unix:///nonexistent.sock", "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def _secret(self) -> str:
        self.hidden.append(f"canary{secrets.token_hex(12)}")
        return self.hidden[-1]

    def _add_bad_applications(self) -> None:
        """Add one that cannot be read, and some whose compose files ask for what a study may not have."""
        (self.apps / "broken").mkdir()
        (self.apps / "broken" / "application.yaml").write_text(BROKEN.format(secret=self._secret()))
        asks = {
            "reads-database": "environment: [TAILOR_DATABASE, PGPASSWORD]",
            "fills-in-database": 'command: ["${TAILOR_DATABASE}", "${PGPASSWORD}"]',
            "mounts-root": f'volumes: ["/:/host", "{self.base / "outside"}:/outside"]',
            "reads-passwd": f"env_file: [{self.base / 'outside' / 'passwd'}]",
            "host-processes": 'pid: "${X:-host}"',
        }
        for name, line in asks.items():
            directory = self.apps / name
            shutil.copytree(ROOT / "tests" / "cases" / "good" / "small", directory)
            about = directory / "application.yaml"
            about.write_text(about.read_text().replace("name: small", f"name: {name}"))
            compose = directory / "compose.yaml"
            compose.write_text(compose.read_text().replace("cache: {image", f"cache: {{{line}, image"))


class Service:
    """The process; ``address`` once it listens.  Used as a context."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.log = place.base / "service.log"
        self.address = ""

    def __enter__(self) -> Service:
        environment = os.environ | self._place.environment
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*TAILOR, "serve", "--port", "0"], env=environment, cwd=ROOT, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self.address:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the service did not begin: {self.log.read_text()[-2000:]}")
            match = re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text())
            self.address = match[0] if match else ""
            time.sleep(0.1)
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])


@dataclass(frozen=True)
class Known:
    """Studies that there are: ``tuned`` is completed, ``paused`` can be resumed, ``long`` runs for ever when it is
    resumed, ``elsewhere`` is asked and told, ``large`` has 5,000 parameters, ``streamed`` is only looked at.
    """

    tuned: str
    paused: str
    long: str
    elsewhere: str
    large: str
    streamed: str


PARAMETERS: list[dict[str, Any]] = [
    {"name": "web.threads", "kind": "integer", "default": 8, "low": 1, "high": 64, "scale": "log"},
    {"name": "web.mode", "kind": "categorical", "default": "a", "choices": ["a", "b"]},
    {"name": "db.share", "kind": "real", "default": 0.5, "low": 0.0, "high": 1.0},
]


def space(size: int) -> list[dict[str, Any]]:
    """Return the parameters of an external study's space, in groups of ten."""
    return [{"name": f"s{n // 10}.p{n}", "kind": "real", "default": 0.5, "low": 0, "high": 1} for n in range(size)]


def prepared(address: str) -> Known:
    """Prepare studies to aim at, by valid requests."""
    with httpx.Client(base_url=f"{address}/v1", timeout=PATIENCE_S) as client:

        def post(path: str, body: dict[str, Any]) -> Any:
            answer = client.post(path, json=body)
            answer.raise_for_status()
            return answer.json()

        def elsewhere(size: int, optimizer: str) -> str:
            body = {"name": "mine", "parameters": space(size) if size else PARAMETERS, "optimizer": optimizer}
            study = str(post("/external", {**body, "budget": 1_000_000})["study"])
            post(f"/external/{study}/ask", {"client": "a", "count": 3})
            return study

        tuned = post("/studies", JOB)["study"]
        deadline = time.monotonic() + PATIENCE_S
        while client.get(f"/studies/{tuned}").json()["state"] != "completed":
            if time.monotonic() > deadline:
                raise TimeoutError("no study was completed")
            time.sleep(0.5)
        paused, long = (
            post("/studies", {**JOB, "seed": seed, "iterations": size})["study"] for seed, size in ((2, 3), (3, 5_000))
        )
        for study in (paused, long):
            post(f"/studies/{study}/stop", {})
        return Known(
            tuned, paused, long, elsewhere(0, "random"), elsewhere(5_000, "random"), streamed=elsewhere(0, "dds")
        )


class Memory:
    """Samples the memory [bytes] of the service and of the processes that it began, while it is a context.

    ``most_of_one``: resident, of one process, with what it shares.  ``most_together``: of all, where what n processes
    share counts one n-th in each (Pss), so that libraries count once.
    """

    EVERY_S = 0.25

    def __init__(self, process: int) -> None:
        self._process = process
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.samples = 0
        self.most_of_one = 0
        self.most_together = 0
        self.most_of_each: dict[str, int] = {}  # by its priority, which each of them has of its own

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._end.wait(self.EVERY_S):
            processes = (self._process, *children_of(self._process))
            sizes = [memory_of(process) for process in processes]
            self.samples += 1
            for process, (resident, _) in zip(processes, sizes, strict=True):
                role = role_of(process)
                self.most_of_each[role] = max(self.most_of_each.get(role, 0), resident)
            self.most_of_one = max(self.most_of_one, *(resident for resident, _ in sizes))
            self.most_together = max(self.most_together, sum(share for _, share in sizes))


def memory_of(process: int) -> tuple[int, int]:
    """Return (resident, proportional share) of a process [bytes]; zeros where it has ended."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0, 0
    sizes = {name: int(size) * 1024 for name, size in re.findall(r"^(Rss|Pss):\s+(\d+) kB", text, re.MULTILINE)}
    return sizes.get("Rss", 0), sizes.get("Pss", 0)


def role_of(process: int) -> str:
    """Return the role of one of the service's processes, told by its priority."""
    try:
        nice = os.getpriority(os.PRIO_PROCESS, process)
    except ProcessLookupError:
        return "others"
    return {0: "service", PAGES_NICE: "pages", ASKS_NICE: "asks"}.get(nice, "others")


def children_of(process: int) -> list[int]:
    """Return all descendants of a process."""
    children: list[int] = []
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return []
    for task in tasks:
        try:
            below = [int(pid) for pid in (task / "children").read_text().split()]
        except OSError:
            continue
        for pid in below:
            children += [pid, *children_of(pid)]
    return children


HEALTH = """
import http.client, json, sys, time
port, patience = int(sys.argv[1]), float(sys.argv[2])
connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
while True:
    for path in ("/v1/health", "/v1/health", "/v1/health", "/v1/health", "/v1/health", "/v1/ready"):
        began = time.monotonic()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            said = answer.read().decode()
            status = answer.status if answer.status == 200 else f"{answer.status}: {said}"
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            status = type(error).__name__
        print(json.dumps([path, status, time.monotonic() - began, time.time()]), flush=True)
        time.sleep(0.2)
"""


class Health:
    """Asks for health five times a second and for readiness once, from a process of its own, while it is a context."""

    PATIENCE_S = 60.0

    def __init__(self, place: Place, port: int) -> None:
        self._file = place.root / "health.jsonl"
        self._port = port

    def __enter__(self) -> Health:
        with self._file.open("wb") as file:
            command = [sys.executable, "-c", HEALTH, str(self._port), str(self.PATIENCE_S)]
            self._process = subprocess.Popen(command, stdout=file)
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def answers(self) -> list[tuple[str, Any, float, float]]:
        """(path, status, seconds, when) of each question so far."""
        lines = self._file.read_text().splitlines()
        whole = [line for line in lines if line.endswith("]")]  # the last may be half written
        return [(path, status, seconds, when) for path, status, seconds, when in map(json.loads, whole)]
