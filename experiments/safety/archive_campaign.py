"""The part of the campaign that imports spoilt files of studies, in a process of its own with a bounded memory.

    python -m experiments.safety.archive_campaign DIRECTORY COUNT SEED

imports so many into a store below DIRECTORY, made of the exports that lie there, and prints what came of it as JSON.
"""

from __future__ import annotations

import hashlib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.peak_memory import peak_bytes
from experiments.safety.archives import Archives
from framework.bootstrap.adapters import Opened, opened
from framework.config.settings import Settings
from framework.config.twin_file import twin_path, twin_text
from framework.errors import InputError, NotFound, TailorError
from framework.model import EXTERNAL, TuneRequest
from framework.study.imported import IMPORTED
from tests.campaign import ROOT
from tests.unit.test_twin_testbed import SLICE, TWIN

EXPORTS = ("completed", "waiting", "elsewhere")
MOST_BYTES = 2**30  # resident
MORE_BYTES = 900 * 2**20  # of data that an import may take, beyond what the process has
MOST_KEPT = 20
SPACE = {"parameters": [{"name": "a", "kind": "real", "default": 0.5, "low": 0.0, "high": 1.0}]}


def export(directory: Path) -> None:
    """Studies of the twin, exported as files below ``directory``: completed, waiting, measured elsewhere."""
    apps = directory / "apps" / "url-shortener"
    shutil.copytree(SLICE.directory, apps)
    twin_path(apps).write_text(twin_text(TWIN))
    kept = opened(Settings.from_environment({"TAILOR_HOME": str(directory / "sender")}))
    request = TuneRequest(
        apps, testbed="twin", optimizer="dds", iterations=3, repetitions=2, pairs=6, window_s=4.0, warmup_s=1.0,
        rate_rps=50.0, drift_every=0, minimal=0,
    )  # fmt: skip
    completed = kept.studies.run(kept.studies.create(request).id, lambda event: None)
    elsewhere = kept.external.create("ours", SPACE, "random", 5, 1, {})
    kept.external.ask(elsewhere.id, 2, "me", 60.0)
    for name, study in zip(EXPORTS, (completed, kept.studies.create(request), elsewhere), strict=True):
        (directory / f"{name}.zip").write_bytes(kept.sharing.pack(study.id))
    kept.close()


class Importing:
    """A store with studies in it, into which files are imported."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._home = directory / "receiver"
        self._file = directory / "spoilt.zip"
        self._kept: Opened = opened(Settings.from_environment({"TAILOR_HOME": str(self._home)}))
        self.outcomes: Counter[str] = Counter()
        self.found = 0
        self.findings: list[dict[str, str]] = []
        self._tree: Mapping[str, str] = {}

    def run(self, count: int, seed: int) -> Mapping[str, Any]:
        """Import so many, and look after each whether it did what it may."""
        exports = [(self._directory / f"{name}.zip").read_bytes() for name in EXPORTS]
        self._kept.sharing.unpack(self._directory / "waiting.zip")  # one is here already, with its description
        archives = Archives(f"archives {seed}", exports)
        self._tree = self._looked_at()
        _limit_memory()
        for _ in range(count):
            self._try(*archives.next())
        peak = peak_bytes()
        if peak > MOST_BYTES:
            self._note("more memory than 1 GiB", bytes=peak)
        return {
            "archives": count,
            "outcomes": dict(sorted(self.outcomes.items())),
            "memory_mib": peak >> 20,
            "found": self.found,
            "findings": self.findings,
        }

    def _try(self, way: str, data: bytes) -> None:
        self._file.write_bytes(data)
        known = {study.id for study in self._kept.store.studies()}
        try:
            study = self._kept.sharing.unpack(self._file)
        except InputError as error:
            self.outcomes[f"{way}: refused"] += 1
            self._unchanged(way, known, str(error))
            return
        except Exception as error:  # also a MemoryError: then it was not bounded
            self.outcomes[f"{way}: failed"] += 1
            self._note("an import failed", way=way, error=f"{type(error).__name__}: {error}")
            return
        self.outcomes[f"{way}: imported"] += 1
        self._as_it_may(way, known, study.id)

    def _unchanged(self, way: str, known: set[str], said: str) -> None:
        """After a refusal nothing is other than before, neither in the store nor below any directory."""
        if self._looked_at() != self._tree:
            self._note("a file that was refused has changed something", way=way, said=said)
            self._tree = self._looked_at()
        if {study.id for study in self._kept.store.studies()} != known:
            self._note("a file that was refused has left a study", way=way, said=said)

    def _as_it_may(self, way: str, known: set[str], study: str) -> None:
        """Of an import there is a study, its description and artefacts; it can be looked at, never run, and deleted."""
        now = self._looked_at()
        changed = {name for name in now.keys() | self._tree.keys() if now.get(name) != self._tree.get(name)}
        allowed = (f"receiver/{IMPORTED}/{study}", "receiver/artefacts")
        if wrong := [name for name in changed if not name.startswith(allowed)]:
            self._note("an import has changed something else", way=way, changed=wrong)
        if study in known:
            self._note("an import replaced a study", way=way, study=study)
        self._looks(way, study)
        self._kept.studies.delete(study)
        self._tree = self._looked_at()
        if wrong := [name for name in self._tree if f"/{study}" in name]:
            self._note("something of a study that was deleted is left", way=way, left=wrong)

    def _looks(self, way: str, study: str) -> None:
        """Look at every view of it: each is shown, or refused with one of Tailor's own errors."""
        kept = self._kept
        actions: Sequence[tuple[str, Callable[[], object]]] = (
            ("summary", lambda: kept.results.summary(kept.store.get(study))),
            ("export", lambda: kept.sharing.pack(study)),
        )  # fmt: skip
        for name, act in actions:
            try:
                act()
            except TailorError:
                self.outcomes[f"{name} of an import: refused"] += 1
            except Exception as error:
                self._note(f"{name} of an import failed", way=way, error=f"{type(error).__name__}: {error}")
        stored = kept.store.get(study)
        if stored.testbed == EXTERNAL:
            return
        if not stored.directory.is_relative_to(self._home / IMPORTED):
            self._note("an import has its application elsewhere", way=way)
        try:
            kept.runner.check_runnable(stored)
        except TailorError:
            return
        self._note("an import may be run", way=way)

    def _looked_at(self) -> Mapping[str, str]:
        """Return path -> digest of every file below the directory, without the database."""
        return {
            str(path.relative_to(self._directory)): _digest(path)
            for path in self._directory.rglob("*")
            if path != self._file and not path.name.startswith("tailor.db")
        }

    def _note(self, problem: str, **about: Any) -> None:
        self.found += 1
        if len(self.findings) < MOST_KEPT:
            self.findings.append({"problem": problem, **{name: str(value)[:1_000] for name, value in about.items()}})
            (self._directory / f"found-{self.found}.zip").write_bytes(self._file.read_bytes())
            self._tree = self._looked_at()


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "/"
    except (FileNotFoundError, NotFound):
        return ""


def _limit_memory() -> None:
    now = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (now + MORE_BYTES, now + MORE_BYTES))


def campaign(count: int, seed: int) -> Mapping[str, Any]:
    """Run the campaign in a process of its own, so that its peak memory is its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="safety-") as directory:
        command = [sys.executable, "-m", "experiments.safety.archive_campaign", directory, str(count), str(seed)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the process ended with {done.returncode}: {done.stderr[-3000:]}")
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**report, "minutes": round((time.monotonic() - began) / 60, 1)}


def main() -> None:
    """As the module says."""
    directory = Path(sys.argv[1])
    export(directory)
    print(json.dumps(Importing(directory).run(int(sys.argv[2]), int(sys.argv[3]))))


if __name__ == "__main__":
    main()
