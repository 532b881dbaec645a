"""The Docker Engine as the testbed needs it: a few calls, every failure translated, so that the SDK stays in here.

An engine that does not answer is asked again a few times and then is TestbedUnavailable; a refusal is a
DeploymentFailed with the engine's own words; what is not there is None or nothing to remove.
"""

from __future__ import annotations

import io
import re
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import docker
import docker.errors
import docker.types
import docker.utils
import requests.exceptions

from framework.errors import DeploymentFailed, TestbedUnavailable

_USERS = re.compile(r"volume is in use - \[([0-9a-f, ]+)\]")

T = TypeVar("T")
R = TypeVar("R")

LOCAL = "unix:///var/run/docker.sock"
ATTEMPTS = 3  # an engine that restarts is back within a second or two
PAUSE_S = 0.3  # doubled after each attempt
TIMEOUT_S = 60  # for one call; a removal on a busy disk takes seconds
ENDINGS, ENDING_S = 100, 0.05  # how often a command that has nothing more to say is asked whether it has ended
ATTEMPTS_TO_FREE = 10  # a container whose creation was cut off shows up within a second or two
THREADS = 16  # more does not help: the engine itself serialises most of the work


@dataclass(frozen=True, slots=True)
class Listed:
    """One container as the engine's list shows it."""

    id: str
    name: str
    state: str  # created, running, paused, restarting, removing, exited, dead
    status: str  # for people: "Up 3 seconds (healthy)", "Exited (1) 2 seconds ago"
    image_id: str
    labels: Mapping[str, str]
    addresses: Mapping[str, str] = field(default_factory=dict)  # network -> IP

    @property
    def service(self) -> str:
        """Its compose service; empty for a container that compose did not make or a one-shot."""
        oneoff = self.labels.get("com.docker.compose.oneoff", "False").lower() == "true"
        return "" if oneoff else self.labels.get("com.docker.compose.service", "")


def in_parallel(function: Callable[[T], R], items: Iterable[T], threads: int = THREADS) -> list[R]:
    """``[function(item) for item in items]``, several at once; the first exception is raised after all are done."""
    listed = list(items)
    if not listed:
        return []
    with ThreadPoolExecutor(min(threads, len(listed))) as pool:
        return list(pool.map(function, listed))


class Engine:
    """A connection to the engine that ``DOCKER_HOST`` names (or the local socket), made when first needed."""

    def __init__(self, attempts: int = ATTEMPTS) -> None:
        self._attempts = attempts
        self._client: docker.APIClient | None = None

    # ------------------------------------------------------------------ asking

    def version(self) -> Mapping[str, Any]:
        return self._ask("tell its version", lambda api: api.version()) or {}

    def info(self) -> Mapping[str, Any]:
        return self._ask("describe itself", lambda api: api.info()) or {}

    def containers(self, label: str | None = None) -> list[Listed]:
        """All containers, running or not, with ``label`` ("key" or "key=value"); None: every one."""
        filters = {"label": label} if label else {}
        found = self._ask("list containers", lambda api: api.containers(all=True, filters=filters)) or []
        return [_listed(entry) for entry in found]

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        return self._ask("inspect a container", lambda api: api.inspect_container(container))

    def logs(self, container: str, lines: int = 20) -> str:
        """The last lines of a container's output; empty when it is gone."""
        raw = self._ask("read logs", lambda api: api.logs(container, tail=lines))
        return raw.decode(errors="replace") if raw else ""

    def stats(self, container: str) -> Mapping[str, Any] | None:
        return self._ask("read usage", lambda api: api.stats(container, stream=False, one_shot=True))

    def execute(self, container: str, command: Sequence[str]) -> tuple[int, str]:
        """(exit code, output) of a command inside a container.  Raises DeploymentFailed when it cannot be run."""

        def run(api: docker.APIClient) -> tuple[int, str]:
            process = api.exec_create(container, list(command))["Id"]
            stream: Any = api.exec_start(process, socket=True)
            try:  # read here: the SDK leaves the connection open, and loses what came with the headers (its issue 3332)
                output = b"".join(_frames(stream._response.raw._fp.fp))
            finally:
                stream._response.close()
                stream.close()
            return _exit_code(api, process), output.decode(errors="replace")

        answer = self._ask(f"run {command[0]} in a container", run)
        if answer is None:
            raise DeploymentFailed(f"its container is gone; could not run {' '.join(command)}")
        return answer

    # ------------------------------------------------------------------ images

    def image(self, name: str) -> Mapping[str, Any] | None:
        return self._ask(f"inspect image {name}", lambda api: api.inspect_image(name))  # type: ignore[no-untyped-call]

    def pull(self, name: str) -> str:
        """Pull an image; returns what went wrong, empty when it is there now."""
        try:
            self._ask(f"pull {name}", lambda api: api.pull(name))
        except DeploymentFailed as error:
            return error.reason
        return "" if self.image(name) is not None else "not found in its registry"

    # ------------------------------------------------------------------ containers

    def stop(self, container: str, seconds: int) -> None:
        """Stop gracefully, with a kill after ``seconds``."""
        self._ask("stop a container", lambda api: api.stop(container, timeout=seconds))

    def remove(self, containers: Iterable[str]) -> None:
        """Kill and remove containers with their anonymous volumes, all at once; done when they are gone."""
        in_parallel(self._remove, containers)

    def _remove(self, container: str) -> None:
        def run(api: docker.APIClient) -> None:
            try:
                api.remove_container(container, v=True, force=True)
            except docker.errors.APIError as error:
                if "already in progress" not in str(error.explanation):
                    raise
                api.wait(container, condition="removed")

        self._ask("remove a container", run)

    def run(self, image: str, command: Sequence[str], volumes: Mapping[str, str], labels: Mapping[str, str]) -> str:
        """Run one command as root in a fresh container that sees ``volumes`` (name -> path); returns its output.

        The container is removed whatever happens.  Raises DeploymentFailed when the command fails.
        """
        mounts = [
            docker.types.Mount(target=path, source=name, type="volume", no_copy=True) for name, path in volumes.items()
        ]

        def create(api: docker.APIClient) -> str:
            config = api.create_host_config(mounts=mounts, network_mode="none")
            made = api.create_container(
                image, entrypoint=list(command[:1]), command=list(command[1:]), user="0", labels=dict(labels),
                host_config=config, healthcheck={"test": ["NONE"]},
            )  # fmt: skip
            return str(made["Id"])

        container = self._ask(f"create a container of {image}", create)
        if container is None:
            raise DeploymentFailed(f"image {image} is not on this machine")
        try:
            self._ask(f"start {command[0]}", lambda api: api.start(container))
            ended: Mapping[str, Any] = (
                self._ask(f"wait for {command[0]}", lambda api: api.wait(container, timeout=600)) or {}
            )
            output = self.logs(container)
        finally:
            self._remove(container)
        if ended.get("StatusCode") != 0:
            raise DeploymentFailed(f"{' '.join(command)} ended with {ended.get('StatusCode')}", log=output)
        return output

    def start(self, image: str, command: Sequence[str], name: str, labels: Mapping[str, str], cpus: str) -> str:
        """Start a container without a network on some CPUs; returns its id.  One of this name is replaced."""

        def create(api: docker.APIClient) -> str:
            config = api.create_host_config(network_mode="none", cpuset_cpus=cpus or None)
            made = api.create_container(image, list(command), name=name, labels=dict(labels), host_config=config)
            return str(made["Id"])

        self._remove(name)
        container = self._ask(f"create a container of {image}", create)
        if container is None:
            raise DeploymentFailed(f"image {image} is not on this machine")
        try:
            self._ask(f"start {image}", lambda api: api.start(container))
        except BaseException:
            self._remove(container)
            raise
        return container

    def set_cpus(self, container: str, cpus: str) -> None:
        """Move a container that runs to a list of CPUs.  Raises DeploymentFailed."""

        def run(api: docker.APIClient) -> bool:
            api.update_container(container, cpuset_cpus=cpus)
            return True

        if self._ask(f"move a container to the CPUs {cpus}", run) is None:
            raise DeploymentFailed(f"its container is gone; could not move it to the CPUs {cpus}")

    # ------------------------------------------------------------------ volumes and networks

    def volumes(self, label: str) -> list[Mapping[str, Any]]:
        found = self._ask("list volumes", lambda api: api.volumes(filters={"label": label})) or {}
        return found.get("Volumes") or []

    def volume(self, name: str) -> Mapping[str, Any] | None:
        return self._ask("inspect a volume", lambda api: api.inspect_volume(name))

    def create_volume(self, name: str, labels: Mapping[str, str], options: Mapping[str, str] | None = None) -> None:
        """Create a volume of the local driver; one that is there under this name is left as it is."""
        self._ask(
            f"create volume {name}",
            lambda api: api.create_volume(name, driver="local", driver_opts=dict(options or {}), labels=dict(labels)),
        )

    def remove_volume(self, name: str) -> None:
        """Remove a volume, and first whatever container uses it.  Raises DeploymentFailed when that does not help."""

        def run(api: docker.APIClient) -> None:
            for attempt in range(ATTEMPTS_TO_FREE):
                try:
                    api.remove_volume(name, force=True)
                    return
                except docker.errors.APIError as error:
                    users = _USERS.search(str(error.explanation))
                    if users is None or attempt == ATTEMPTS_TO_FREE - 1:
                        raise
                    for container in users[1].split(", "):
                        self._remove(container)  # may still be in the making, and so not be listed yet
                    time.sleep(PAUSE_S)

        self._ask(f"remove volume {name}", run)

    def networks(self, label: str) -> list[Mapping[str, Any]]:
        return self._ask("list networks", lambda api: api.networks(filters={"label": label})) or []

    def remove_network(self, network: str) -> bool:
        """Remove a network; what is still attached is let go first.

        False: the engine counts endpoints that are not there and keeps the empty network until it is restarted, a
        flaw of engines before 28 after something was cut off.
        """

        def run(api: docker.APIClient) -> bool:
            for attempt in range(2):
                for container in api.inspect_network(network).get("Containers") or {}:
                    api.disconnect_container_from_network(container, network, force=True)
                try:
                    api.remove_network(network)
                    return True
                except docker.errors.APIError as error:
                    if "has active endpoints" not in str(error.explanation):
                        raise
                    if attempt == 0:
                        time.sleep(PAUSE_S)
            return bool(api.inspect_network(network).get("Containers"))  # attached anew: to be tried again

        return self._ask("remove a network", run) is not False

    # ------------------------------------------------------------------ translation

    def _ask(self, what: str, call: Callable[[docker.APIClient], R]) -> R | None:
        """The answer; None when the engine says that the thing is not there."""
        problem = ""
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(PAUSE_S * 2 ** (attempt - 1))
            try:
                return call(self._connected())
            except (docker.errors.NotFound, docker.errors.NullResource):
                return None
            except docker.errors.APIError as error:
                raise DeploymentFailed(f"the engine could not {what}: {error.explanation or error}") from error
            except (requests.exceptions.RequestException, docker.errors.DockerException, OSError) as error:
                problem = str(error)
        raise TestbedUnavailable(f"the Docker Engine does not answer ({what}): {problem}")

    def _connected(self) -> docker.APIClient:
        if self._client is None:
            options: dict[str, Any] = {"version": "auto", **docker.utils.kwargs_from_env()}
            kind, _, path = str(options.get("base_url", LOCAL)).partition("://")
            if "unix" in kind and not Path(path).exists():  # the SDK would leave a socket open for each attempt
                raise FileNotFoundError(f"there is no {path}")
            self._client = docker.APIClient(**options, timeout=TIMEOUT_S, max_pool_size=THREADS)
            weakref.finalize(self, self._client.close)
        return self._client


def _frames(reader: io.BufferedReader) -> Iterator[bytes]:
    """The parts of a command's output: eight bytes before each, the last four of them its length."""
    while len(header := reader.read(8)) == 8:
        yield reader.read(int.from_bytes(header[4:], "big"))


def _exit_code(api: docker.APIClient, process: str) -> int:
    """Of a command whose output has ended; the command itself may end a moment later."""
    for _ in range(ENDINGS):
        about = api.exec_inspect(process)
        if about["ExitCode"] is not None:
            return int(about["ExitCode"])
        time.sleep(ENDING_S)
    raise DeploymentFailed("a command in a container closed its output and goes on")


def _listed(entry: Mapping[str, Any]) -> Listed:
    networks = (entry.get("NetworkSettings") or {}).get("Networks") or {}
    return Listed(
        id=entry["Id"],
        name=(entry.get("Names") or ["/"])[0].lstrip("/"),
        state=entry["State"],
        status=entry["Status"],
        image_id=entry["ImageID"],
        labels=entry.get("Labels") or {},
        addresses={name: network.get("IPAddress") or "" for name, network in networks.items()},
    )
