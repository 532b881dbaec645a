"""The compose command (v2, or 1.29 where there is no other): how to find it, run it, and explain its failures.

Tailor uses compose only to start containers in the order of their dependencies and to run one-shots.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from framework.errors import DeploymentFailed, MissingPrerequisite, TestbedUnavailable

CANDIDATES = (("docker", "compose"), ("docker-compose",))
ENVIRONMENT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "XDG_RUNTIME_DIR", "SSH_AUTH_SOCK")
_LIBC = ctypes.CDLL(None)  # loaded here: nothing may be loaded between fork and exec
PR_SET_PDEATHSIG = 1  # linux/prctl.h
ENDING_S = 10.0  # in which compose finishes or undoes what it has begun
UP_TIMEOUT_S = 300.0  # `up` itself waits where the application's depends_on asks for health
LAST_LINES = 15

# Progress lines, which compose prints before an error.
_PROGRESS = re.compile(
    r"^\s*(Container|Network|Volume|Creating|Starting|Recreating|Removing|Pulling|Attaching|Stopping)\s\S+.*?"
    r"(Creat(ing|ed)|Start(ing|ed)|Runn(ing)|Recreat(e|ed)|Remov(ing|ed)|Wait(ing)|Healthy|Exited|Stopp(ing|ed)|\.\.\.(\s*done)?)\s*$"
)
_WARNING = re.compile(r"level=warning|^WARNING:|is obsolete")
_PORT = re.compile(
    r"(?:Bind for|listen tcp4?|bind for)\s+(?P<address>\S+?:(?P<port>\d+))[: ].*?(?:already (?:allocated|in use))", re.S
)
_SOURCE = re.compile(r"(?:bind source path does not exist: |error while creating mount source path '?|"
                     r"cannot create directory |mounting \"?)(?P<path>[^'\"\s:]+)")  # fmt: skip
_IMAGE = re.compile(
    r"(?:No such image: |pull access denied for |manifest for |image )(?P<image>[^\s,]+)(?:,| not found| is missing|$)",
    re.M,
)
_SERVICE = re.compile(r"(?:for |Container )(?P<name>[a-zA-Z0-9_.-]+)")
_INVALID = re.compile(
    r"validating |[Aa]dditional propert|yaml: |is invalid because|must be a|undefined (?:volume|network|service)|"
    r"depends on undefined|"
    r"invalid (?:compose|project|interpolation|spec|reference)|Unsupported config|cyclic|refers to undefined"
)
_STUCK_NETWORK = re.compile(r"removing network.*has active endpoints", re.S)
_NO_ENGINE = re.compile(r"Cannot connect to the Docker daemon|Couldn't connect to Docker daemon|error during connect")


@dataclass(frozen=True, slots=True)
class ComposeCommand:
    """A compose command that works on this machine.  ``version``: without a leading v."""

    argv: tuple[str, ...]
    version: str

    @classmethod
    def find(cls, candidates: Sequence[Sequence[str]] = CANDIDATES) -> ComposeCommand:
        """Return the first candidate that answers.  Raises MissingPrerequisite when none does."""
        for argv in candidates:
            try:
                answer = subprocess.run(
                    [*argv, "version", "--short"], capture_output=True, text=True, timeout=30, check=False
                )
            except (OSError, subprocess.TimeoutExpired):
                continue
            if answer.returncode == 0 and answer.stdout.strip():
                return cls(tuple(argv), answer.stdout.strip().removeprefix("v"))
        raise MissingPrerequisite(
            "no compose command: neither `docker compose` nor `docker-compose` works",
            "run `make compose`, or install the Docker Compose plugin",
        )

    @property
    def old(self) -> bool:
        """Whether this is compose 1.x."""
        return self.version.startswith("1.")

    def up(self, project: str, file: Path) -> None:
        """Create what is missing and start what does not run, without building or pulling.

        Containers that exist stay as they are.  Raises DeploymentFailed with compose's reason, TestbedUnavailable where
        the engine does not answer.
        """
        options = ["-d", "--no-build", "--no-recreate"]
        if not self.old:
            options += ["--pull", "never"]
        self._checked(project, file, ["up", *options], UP_TIMEOUT_S)

    def run(
        self, project: str, file: Path, service: str, command: Sequence[str], timeout_s: float
    ) -> tuple[int, str, str]:
        """Run a one-shot service to its end; returns (exit code, output, last error lines).

        Raises DeploymentFailed when it does not end in time, TestbedUnavailable when the engine went away.
        """
        arguments = ["run", "--rm", "--no-deps", "-T", service, *command]
        ended = self._run(project, file, arguments, timeout_s)
        if ended.returncode != 0 and _NO_ENGINE.search(ended.stderr):
            raise failure(project, ended.stderr)
        return ended.returncode, ended.stdout, _last_lines(ended.stderr)

    def _checked(self, project: str, file: Path, arguments: Sequence[str], timeout_s: float) -> None:
        ended = self._run(project, file, arguments, timeout_s)
        if ended.returncode != 0:
            raise failure(project, ended.stderr or ended.stdout)

    def _run(
        self, project: str, file: Path, arguments: Sequence[str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        command = [*self.argv, "-p", project, "-f", str(file), *arguments]
        try:
            started = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                errors="replace", env=_environment(os.environ), cwd=file.parent, preexec_fn=_end_with_parent,
                start_new_session=True,  # Ctrl-C at a terminal is for this process, which ends the command itself
            )  # fmt: skip
        except OSError as error:
            raise MissingPrerequisite(f"{command[0]} cannot be run: {error.strerror}", "install it again") from error
        with started:
            try:
                output, errors = started.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                raise DeploymentFailed(
                    f"compose {arguments[0]} did not end within {timeout_s:g} s", log=_last_lines(_terminate(started))
                ) from error
            except BaseException:
                _terminate(started)
                raise
        return subprocess.CompletedProcess(command, started.returncode, output, errors)


def _end_with_parent() -> None:
    """Make the kernel end compose when Tailor ends, or it would start more containers.  Runs between fork and exec."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _terminate(started: subprocess.Popen[str]) -> str:
    """End compose, which gets time to finish what it has begun; returns its error output."""
    started.terminate()
    try:
        return started.communicate(timeout=ENDING_S)[1]
    except subprocess.TimeoutExpired:
        started.kill()
        return started.communicate()[1]


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Keep the variables that compose needs to run and to find its engine.

    Others are left out: a document could read them, and some change its meaning (COMPOSE_PROFILES, COMPOSE_FILE).
    """
    kept = {key: value for key, value in environment.items() if key in ENVIRONMENT or key.startswith("DOCKER_")}
    return {**kept, "COMPOSE_ANSI": "never", "COMPOSE_MENU": "0", "COMPOSE_IGNORE_ORPHANS": "1"}


def failure(project: str, output: str) -> DeploymentFailed | TestbedUnavailable:
    """Return the error that compose's output stands for, with the last lines that matter."""
    lines = _last_lines(output)
    if _STUCK_NETWORK.search(output):  # a fault of engines before 28, not of the configuration
        return TestbedUnavailable(f"the Docker Engine keeps an empty network until it is restarted: {lines}")
    if _NO_ENGINE.search(output):
        return TestbedUnavailable(f"the Docker Engine does not answer: {lines}")
    service = _named_service(project, lines)
    if port := _PORT.search(lines):
        return DeploymentFailed(f"port {port['port']} is taken ({port['address']})", service, lines)
    if _INVALID.search(lines):
        return DeploymentFailed("compose refuses the document as invalid", service, lines)
    if image := _IMAGE.search(lines):
        return DeploymentFailed(f"image {image['image']} is not on this machine", service, lines)
    if source := _SOURCE.search(lines):
        return DeploymentFailed(f"cannot mount {source['path']}", service, lines)
    return DeploymentFailed("compose could not start the deployment", service, lines)


def _named_service(project: str, text: str) -> str:
    """Return the service whose container an error names: ``<project>-<service>-1``, with underscores in compose 1.x."""
    match = re.search(rf"{re.escape(project)}[-_](?P<service>[a-zA-Z0-9._-]+?)[-_]\d+\b", text)
    return match["service"] if match else ""


def _last_lines(output: str) -> str:
    """Return the last lines without progress, warnings and blanks."""
    lines = [line.strip() for line in output.splitlines()]
    kept = [line for line in lines if line and not _PROGRESS.match(line) and not _WARNING.search(line)]
    return "\n".join(kept[-LAST_LINES:])
