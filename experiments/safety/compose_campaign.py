"""The part of the campaign that writes applications with generated compose documents and brings them to the gate."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.safety.compose_documents import Documents
from experiments.safety.reach import problems
from framework.compose import render
from framework.compose.gate import Gate
from framework.compose.interpolation import escaped
from framework.compose.safety import Admitted
from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.writing import to_yaml
from framework.errors import FileError, InputError, TailorError
from framework.model import Application, Deployment
from framework.testbeds.docker.compose_command import ComposeCommand
from framework.testbeds.docker.document import wanted
from framework.testbeds.docker.run_directory import compose_file, write
from optimizer.space import Configuration

PROJECT = "tailor-campaign"
MOST_KEPT = 20
ABOUT = """kind: application
version: 1
name: generated
services: {jaeger: {type: memcached}}
workload: {file: workload.yaml, rate_rps: 10, target: "http://jaeger:8080"}
tracing: {service: jaeger}
"""
WORKLOAD = "kind: workload\nversion: 1\ntimeout_ms: 1000\nrequests: [{name: root, weight: 1, path: /}]\n"


@dataclass
class Tally:
    documents: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)  # by the key that was refused
    asked_compose: Counter[str] = field(default_factory=Counter)
    found: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)

    def note(self, problem: str, **about: Any) -> None:
        self.found += 1
        if len(self.findings) < MOST_KEPT:
            self.findings.append({"problem": problem, **{name: repr(value)[:2000] for name, value in about.items()}})


class ComposeCampaign:
    """Documents against the gate.  ``compose``: the command that reads admitted documents too, or None.

    What documents must not contain is in this process's environment while it works.
    """

    def __init__(self, directory: Path, compose: ComposeCommand | None, sample: int) -> None:
        self._application, self._own = directory / "apps" / "generated", directory / "home" / "deployments" / PROJECT
        self._outside = directory / "outside"
        self._hidden = {name: f"canary{secrets.token_hex(12)}" for name in ("TAILOR_DATABASE", "PGPASSWORD")}
        self._compose, self._sample = compose, sample
        self._types = resolved(load_service_types(), cores=2, memory_mib=16_384)
        self.tally = Tally()
        for parent in (self._application / "data", self._outside, self._own.parent):
            parent.mkdir(parents=True)
        (self._outside / "passwd").write_text(f"root:{secrets.token_hex(12)}\n")
        (self._application / "application.yaml").write_text(ABOUT)
        (self._application / "workload.yaml").write_text(WORKLOAD)
        (self._application / "conf").write_text("A=1\n")
        (self._application / "link").symlink_to(self._outside)

    def run(self, count: int, seed: int) -> Mapping[str, Any]:
        """Generate, write, load and check so many documents."""
        began = time.monotonic()
        documents = Documents(f"documents {seed}", self._outside)
        before = {name: os.environ.get(name) for name in self._hidden}
        os.environ.update({name: f"postgresql://tailor:{text}@db/tailor" for name, text in self._hidden.items()})
        try:
            with socket.socket(socket.AF_UNIX) as listening:
                place = Path.cwd()
                os.chdir(self._application)  # the path of a socket is short
                try:
                    listening.bind(".socket")  # hidden: what is no file belongs to no application
                finally:
                    os.chdir(place)
                for _ in range(count):
                    self._try(documents.next())
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        tally = self.tally
        return {
            "documents": tally.documents,
            "outcomes": dict(tally.outcomes),
            "refused_for": dict(tally.refusals.most_common()),
            "docker_compose": self._compose.version if self._compose else "none",
            "asked_docker_compose": dict(tally.asked_compose),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "found": tally.found,
            "findings": tally.findings,
        }

    def _try(self, document: Mapping[str, Any]) -> None:
        tally = self.tally
        tally.documents += 1
        try:
            (self._application / "compose.yaml").write_text(to_yaml(document))
            application = load_application(self._application)
        except FileError:
            tally.outcomes["not loaded"] += 1
            return
        except TailorError as error:
            tally.outcomes[f"not loaded: {type(error).__name__}"] += 1
            return
        try:
            admitted = Gate().admitted(application)
        except Exception as error:  # whatever it is, it is a bug
            tally.note("the gate failed", error=error, document=document)
            return
        self._compare(document, admitted)
        if admitted.refused:
            tally.outcomes["refused"] += 1
            for refusal in admitted.refused:
                key = ".".join(
                    part for place, part in enumerate(refusal.place.partition(":")[0].split(".")) if place != 1
                )
                tally.refusals[key] += 1
                if any(text in str(refusal) for text in self._hidden.values()):
                    tally.note("a refusal says a secret", refusal=str(refusal), document=document)
            return
        tally.outcomes["admitted"] += 1
        self._judge("admitted", document, admitted.document, self._application, "")
        self._written(document, application)

    def _compare(self, document: Mapping[str, Any], admitted: Admitted) -> None:
        """Check that the whole gate decides the same, with the message that a launch gets."""
        if Gate().admitted(load_application(self._application)).refused != admitted.refused:
            self.tally.note("a second look says something else", document=document)

    def _judge(
        self, stage: str, document: Mapping[str, Any], rendered: Mapping[str, Any], own: Path, project: str
    ) -> None:
        readable = [self._application, self._own]
        # The application's own files become copies only where a deployment is written.
        for problem in problems(
            rendered, readable=readable, own=own, project=project, hidden=tuple(self._hidden.values())
        ):
            self.tally.note(f"{stage}: {problem}", document=document, result=rendered)

    def _written(self, document: Mapping[str, Any], application: Application) -> None:
        """Return the document as a testbed writes it for an engine."""
        try:
            deployment: Deployment = render(
                application, self._types, Configuration({}), project=PROJECT, labels={"tailor.study": "s"}
            )
            [rendered] = deployment.documents.values()
            want = wanted(deployment, Gate().deployment(deployment, rendered, self._own))
            write(self._own, escaped(want.document), deployment.files, want.files)
        except InputError as error:
            self.tally.outcomes["refused once it was rendered"] += 1
            self.tally.refusals[f"rendered: {str(error)[:60]}"] += 1
            return
        except TailorError as error:
            self.tally.outcomes[f"not written: {type(error).__name__}"] += 1
            return
        except Exception as error:
            self.tally.note("a document that was admitted cannot be written", error=repr(error), document=document)
            return
        self.tally.outcomes["written"] += 1
        self._judge("written", document, want.document, self._own, PROJECT)
        if self._compose is not None and self.tally.asked_compose.total() < self._sample:
            self._ask_compose(document)

    def _ask_compose(self, document: Mapping[str, Any]) -> None:
        """Return Docker Compose's own reading of the written file; no engine is asked."""
        assert self._compose is not None
        file = compose_file(self._own)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "DOCKER_HOST": "unix:///nonexistent.sock",
        }
        environment |= {name: os.environ[name] for name in self._hidden}  # also where compose could see them
        command = [*self._compose.argv, "-p", PROJECT, "-f", str(file), "--profile", "*", "config", "--format", "json"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self._own, check=False)
        if done.returncode:
            self.tally.asked_compose["refused by Docker Compose"] += 1
            return
        self.tally.asked_compose["understood"] += 1
        self._judge("Docker Compose", document, json.loads(done.stdout), self._own, PROJECT)


def docker_compose() -> ComposeCommand | None:
    """Return the plugin of generation 2, which prints JSON; None where it is not installed."""
    try:
        command = ComposeCommand.find((("docker", "compose"), ("docker-compose",)))
    except TailorError:
        return None
    return None if command.old else command


def campaign(count: int, seed: int, sample: int) -> Mapping[str, Any]:
    """Run so many documents; show at most ``sample`` of the admitted ones to Docker Compose."""
    with tempfile.TemporaryDirectory(prefix="safety-") as directory:
        return ComposeCampaign(Path(directory), docker_compose(), sample).run(count, seed)
