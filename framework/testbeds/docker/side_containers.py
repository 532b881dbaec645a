"""Side containers: run beside a deployment, their output read line by line, and removed afterwards."""

from __future__ import annotations

import io
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import docker
import docker.errors
import docker.types
import docker.utils.socket
import requests.exceptions

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.model.side_container import Ended, SideContainer
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.owner import Owner


class DockerSideContainers:
    """Side containers of an engine; implements ``framework.ports.side_containers.SideContainers``."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine or Engine()
        self._connection = Connection()

    def has_image(self, name: str) -> bool:
        return self._engine.image(name) is not None

    def cores(self) -> int:
        """Return the number of cores of the engine's machine.  Raises TestbedUnavailable."""
        return int(self._engine.info()["NCPU"])

    def run(self, wanted: SideContainer, each: Callable[[bytes], None]) -> Ended:
        """Run a container to its end; ``each`` is called with every line of its standard output as it comes.

        Raises DeploymentFailed where the engine refuses the container, TestbedUnavailable where it does not answer.
        """
        owner = Owner.project(wanted.project)
        host = {
            "network_mode": wanted.network,
            "cap_add": list(wanted.capabilities),
            "cpu_shares": wanted.cpu_shares,
            "cpuset_cpus": wanted.cpus or None,
            # The output is read while the container runs; a log file of it would only cost writes.
            "log_config": docker.types.LogConfig(type="none"),
        }
        container = self._engine.create(wanted.image, wanted.command, owner, wanted.labels, wanted.name, host)
        try:
            with _translated(wanted.name):
                self._connection.client().put_archive(container, "/", _archive(wanted.files))
                for network in wanted.also:
                    self._connection.client().connect_container_to_network(container, network)
            return _Attached(self._connection, container, wanted).run(each)
        finally:
            self._engine.remove([container], owner)


class _Attached:
    """One run of a created container."""

    def __init__(self, connection: Connection, container: str, wanted: SideContainer) -> None:
        self._api, self._container, self._wanted = connection.client(), container, wanted
        self._errors = bytearray()
        self._late = threading.Event()

    def run(self, each: Callable[[bytes], None]) -> Ended:
        name = self._wanted.name
        with _translated(name):
            # Attached before it starts, so that no output is missed.
            socket: Any = self._api.attach_socket(self._container, {"stdout": 1, "stderr": 1, "stream": 1})
        alarm = threading.Timer(self._wanted.limit_s, self._give_up)
        alarm.daemon = True
        try:
            with _translated(name):
                self._api.start(self._container)
            alarm.start()
            for line in self._lines(socket):
                each(line)
        finally:
            alarm.cancel()
            socket._response.close()  # the library leaves it open
            socket.close()
        with _translated(name):
            status = int(self._api.wait(self._container)["StatusCode"])
        return Ended(status, self._errors.decode(errors="replace"), self._late.is_set())

    def _lines(self, socket: Any) -> Iterator[bytes]:
        pending = bytearray()
        frames: Any = docker.utils.socket.frames_iter(socket, tty=False)  # type: ignore[no-untyped-call]
        while True:
            with _translated(self._wanted.name):  # only the library's errors, not those of the caller
                frame = next(frames, None)
            if frame is None:
                return
            stream, data = frame
            if stream == docker.utils.socket.STDERR:
                self._errors += data
                continue
            searched = len(pending)
            pending += data
            while (end := pending.find(b"\n", searched)) >= 0:
                yield bytes(pending[:end])
                del pending[: end + 1]
                searched = 0

    def _give_up(self) -> None:
        self._late.set()
        # Where the container or the engine is gone already, reading the output ends by itself.
        with suppress(DeploymentFailed, TestbedUnavailable), _translated(self._wanted.name):
            self._api.kill(self._container)


def _archive(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.size, entry.mode = len(data), 0o444
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Translate the library's exceptions into Tailor's."""
    try:
        yield
    except docker.errors.APIError as error:
        raise DeploymentFailed(f"the engine could not run {name}: {error.explanation or error}") from error
    except (requests.exceptions.RequestException, docker.errors.DockerException, OSError) as error:
        raise TestbedUnavailable(f"the Docker Engine does not answer ({name}): {error}") from error
