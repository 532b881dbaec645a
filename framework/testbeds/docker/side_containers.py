"""Side containers: run beside a deployment, their output read line by line, and removed afterwards."""

from __future__ import annotations

import io
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
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

MOST_BYTES = 2**30  # of a file that is copied out of a container


class DockerSideContainers:
    """Side containers of an engine; implements ``framework.ports.side_containers.SideContainers``."""

    def __init__(self, engine: Engine | None = None, connection: Connection | None = None) -> None:
        self._engine = engine or Engine()
        self._connection = connection or Connection()

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
        more: dict[str, Any] = {"entrypoint": [wanted.program]} if wanted.program else {}
        if wanted.directory:
            more["working_dir"] = wanted.directory
        if wanted.environment:
            more["environment"] = dict(wanted.environment)
        container = self._engine.create(wanted.image, wanted.command, owner, wanted.labels, wanted.name, host, **more)
        try:
            with _translated(wanted.name):
                self._connection.client().put_archive(container, "/", _archive(wanted.files, wanted.writable))
                for network in wanted.also:
                    self._connection.client().connect_container_to_network(container, network)
            ended = _Attached(self._connection, container, wanted).run(each)
            for path, target in wanted.outputs.items():
                self._fetch(wanted.name, container, path, target)
            return ended
        finally:
            self._engine.remove([container], owner)

    def _fetch(self, name: str, container: str, path: str, target: Path) -> None:
        """Copy a file out of a container that has ended; one that is not there is left out.

        Raises DeploymentFailed for one beyond ``MOST_BYTES``.
        """
        with _translated(name):
            try:
                chunks, about = self._connection.client().get_archive(container, path)
            except docker.errors.NotFound:
                return
            try:
                size = int(about["size"])
                if size > MOST_BYTES:
                    raise DeploymentFailed(f"{name} wrote {size} bytes to {path}; at most {MOST_BYTES} are read")
                with tarfile.open(fileobj=_Chunks(chunks), mode="r|") as archive:
                    for entry in archive:
                        content = archive.extractfile(entry)
                        if content is not None:
                            with content, target.open("wb") as file:
                                shutil.copyfileobj(content, file)
                            return
            finally:
                chunks.close()


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a file that is read once from its beginning."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the next chunk goes; 0 at the end."""
        self._rest = self._rest or next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


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


def _archive(files: Mapping[str, bytes], writable: Sequence[str] = ()) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in writable:
            directory = tarfile.TarInfo(name.lstrip("/"))
            directory.type, directory.mode = tarfile.DIRTYPE, 0o777
            archive.addfile(directory)
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
