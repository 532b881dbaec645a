"""Where a load generator of somebody else runs: in a container beside the deployment, or as a command of this machine.

In a container it calls services by name, in the networks that Tailor's own generator joins; nothing of the user's is
mounted, the script's directory is copied.  A command of this machine runs in a copy of that directory too, and reaches
the entry by the address of its container.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import urlsplit

from framework.errors import DeploymentFailed, LoadFailed, MissingPrerequisite
from framework.load.container import CPU_SHARES, generator_cpuset
from framework.load.invocation import Finished, Invocation
from framework.model import Running
from framework.model.side_container import SideContainer
from framework.ports.side_containers import SideContainers

SCRIPTS, RESULTS = "/tailor/script", "/tailor/results"
MOST_OUTPUT = 4 * 2**20  # bytes of standard output that are kept, from the end
MOST_RESULTS = 2**30  # bytes of one file that is read
MOST_CONVERTED = 2**28  # bytes of a file that a second command gets
LOG_LINES = 20
CONVERSION_S = 120.0
KEPT_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME")


class Runner(Protocol):
    """Runs an invocation to its end."""

    scripts: str
    results: str

    def target(self, address: str) -> str:
        """Return the address of the entry as the generator reaches it.  Raises LoadFailed."""

    def run(self, invocation: Invocation, files: Mapping[str, bytes], directory: Path, limit_s: float) -> Finished:
        """Run it; its results come to ``directory`` (a runner on this machine has no other).

        ``files``: name -> content, beside which it runs.  Raises LoadFailed, MissingPrerequisite, DeploymentFailed.
        """


class Tail:
    """The end of an output that comes line by line.  ``last_ns``: when the last line came, 0 before there is one."""

    def __init__(self, most: int = MOST_OUTPUT) -> None:
        self._most, self._lines = most, bytearray()
        self.last_ns = 0

    @property
    def kept(self) -> bytes:
        """The last bytes."""
        return bytes(self._lines[-self._most :])

    def line(self, line: bytes) -> None:
        """Take a line."""
        self.last_ns = time.time_ns()
        self._lines += line + b"\n"
        if len(self._lines) > 2 * self._most:
            del self._lines[: -self._most]


class InContainer:
    """Runs a generator in a container of an image; implements ``Runner``."""

    scripts, results = SCRIPTS, RESULTS

    def __init__(self, containers: SideContainers, image: str, running: Running, cpus: str = "") -> None:
        self._containers, self._image, self._running = containers, image, running
        self._cpus = cpus or generator_cpuset(containers.cores())

    def target(self, address: str) -> str:
        """Return the address as it is: the container is in the network of the entry."""
        return address

    def run(self, invocation: Invocation, files: Mapping[str, bytes], directory: Path, limit_s: float) -> Finished:
        """Run it in a container, and a second command in another one."""
        if not self._containers.has_image(self._image):
            raise MissingPrerequisite(f"image {self._image} is not here", f"docker pull {self._image}, or build it")
        placed = {f"{SCRIPTS}/{name}": content for name, content in files.items()}
        tail = self._one(invocation, invocation.command, invocation.outputs, placed, directory, limit_s)
        ended_ns = tail.last_ns or time.time_ns()
        if invocation.then:
            between = {f"{RESULTS}/{name}": _content(directory / name) for name in invocation.outputs}
            self._one(invocation, invocation.then, invocation.converted, between, directory, CONVERSION_S)
        return Finished(tail.kept, directory, ended_ns)

    def _one(
        self, invocation: Invocation, command: Sequence[str], outputs: Sequence[str], files: Mapping[str, bytes],
        directory: Path, limit_s: float,
    ) -> Tail:  # fmt: skip
        deployment = self._running.deployment
        wanted = SideContainer(
            image=self._image,
            command=tuple(command[1:]),
            name=f"{deployment.project}-loadgen",
            project=deployment.project,
            network=self._running.network,
            also=self._running.also,
            labels={**deployment.labels, "tailor.role": "loadgen"},
            files=files,
            cpus=self._cpus,
            cpu_shares=CPU_SHARES,
            limit_s=limit_s,
            program=command[0],
            environment=invocation.environment,
            directory=SCRIPTS,
            writable=(SCRIPTS, RESULTS),
            outputs={f"{RESULTS}/{name}": directory / name for name in outputs},
        )
        tail = Tail()
        try:
            ended = self._containers.run(wanted, tail.line)
        except DeploymentFailed as error:
            raise LoadFailed(f"{command[0]} in its container: {error.reason}") from error
        _check(command, ended.status, ended.late, limit_s, tail.kept, ended.errors)
        return tail


class OnThisMachine:
    """Runs a generator as a command of this machine; implements ``Runner``."""

    def __init__(self, running: Running, scripts: Path, results: Path) -> None:
        """Set up the runner: directories of this machine for copies of the scripts, and for results."""
        self._running, self._directory = running, scripts
        self.scripts, self.results = str(scripts), str(results)

    def target(self, address: str) -> str:
        """Return the address with the container's own in the place of the service's name."""
        parts = urlsplit(address)
        container = self._running.containers.get(parts.hostname or "")
        if container is None or not container.address:
            raise LoadFailed(f"{address} has no address that this machine reaches; run the generator in a container")
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{container.address}{port}"

    def run(self, invocation: Invocation, files: Mapping[str, bytes], directory: Path, limit_s: float) -> Finished:
        """Run it in a copy of the script's directory."""
        for name, content in files.items():
            path = self._directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        output = self._one(invocation.command, invocation.environment, limit_s)
        ended_ns = time.time_ns()
        if invocation.then:
            self._one(invocation.then, invocation.environment, CONVERSION_S)
        for name in (*invocation.outputs, *invocation.converted):
            path = directory / name
            if path.is_file() and path.stat().st_size > MOST_RESULTS:
                raise LoadFailed(f"{name} has {path.stat().st_size} bytes; at most {MOST_RESULTS} are read")
        return Finished(output, directory, ended_ns)

    def _one(self, command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> bytes:
        program = shutil.which(command[0])
        if program is None:
            raise MissingPrerequisite(
                f"{command[0]} is not on this machine", "install it, or name an image in load: of application.yaml"
            )
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [program, *command[1:]],
                cwd=self._directory, env={**kept, **environment},
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
            )  # fmt: skip
            late = False
            try:
                process.wait(limit_s)
            except subprocess.TimeoutExpired:
                late = True
            finally:
                _end(process)
            printed, said = _last(output, MOST_OUTPUT), _last(errors, MOST_OUTPUT).decode(errors="replace")
        _check(command, process.returncode, late, limit_s, printed, said)
        return printed


def _check(command: Sequence[str], status: int, late: bool, limit_s: float, output: bytes, errors: str) -> None:
    """Raise LoadFailed, with the last lines that it wrote, for a command that did not end well."""
    text = errors if errors.strip() else output.decode(errors="replace")
    log = "".join(f"\n  | {line[:500]}" for line in text.strip().splitlines()[-LOG_LINES:])
    if late:
        raise LoadFailed(f"{command[0]} had not ended after {limit_s:.0f} s{log}")
    if status != 0:
        raise LoadFailed(f"{command[0]} ended with status {status}{log}")


def _content(path: Path) -> bytes:
    """Read a file that a second command gets.  Raises LoadFailed."""
    if not path.is_file():
        raise LoadFailed(f"the generator wrote no {path.name}")
    if path.stat().st_size > MOST_CONVERTED:
        raise LoadFailed(f"{path.name} has {path.stat().st_size} bytes; at most {MOST_CONVERTED} are converted")
    return path.read_bytes()


def _last(file: IO[bytes], most: int) -> bytes:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - most))
    return file.read()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its children, those that outlived it too."""
    with suppress(ProcessLookupError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
