"""The Docker Engine's calls that the testbed needs, and the only place that changes something on an engine.

Every call that changes or removes something names an owner, and first checks that the thing bears the owner's label:
nothing that Tailor did not make is touched, whatever its name.
"""

from __future__ import annotations

import io
import re
import tarfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

import docker
import docker.errors
import docker.types

from framework.errors import DeploymentFailed, InputError
from framework.testbeds.docker.connection import ATTEMPTS, PAUSE_S, Connection, in_parallel
from framework.testbeds.docker.exec_output import exit_code, frames
from framework.testbeds.docker.labelled_images import LabelledImages
from framework.testbeds.docker.listed import Listed, listed
from framework.testbeds.docker.owner import Owner

_USERS = re.compile(r"volume is in use - \[([0-9a-f, ]+)\]")

VOLUME_ATTEMPTS = 10  # a container whose creation was cut off shows up within a second or two
FIRST_SOUND = 28  # the engine's first major version that counts endpoints right
NETWORK_ATTEMPTS = 5  # an endpoint whose creation was cut off goes within a second or two


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A volume, or a directory of the engine's machine, mounted read-only at ``target``."""

    kind: Literal["volume", "bind"]
    source: str
    target: str


class Engine:
    """An engine: the one at ``endpoint`` (a URL or a docker context), that ``DOCKER_HOST`` names, or the local one."""

    def __init__(self, attempts: int = ATTEMPTS, endpoint: str = "") -> None:
        self._connection = Connection(attempts, endpoint)
        self._ask = self._connection.ask
        self.labelled = LabelledImages(self._connection)
        self._miscounting: bool | None = None  # not known yet

    # ------------------------------------------------------------------ asking

    def version(self) -> Mapping[str, Any]:
        return self._ask("tell its version", lambda api: api.version()) or {}

    def info(self) -> Mapping[str, Any]:
        return self._ask("describe itself", lambda api: api.info()) or {}

    def containers(self, label: str | None = None) -> list[Listed]:
        """List containers, running or not, with ``label`` ("key" or "key=value"); None: all."""
        filters = {"label": label} if label else {}
        entries = self._ask("list containers", lambda api: api.containers(all=True, filters=filters)) or []
        return [listed(entry) for entry in entries]

    def inspect(self, container: str) -> Mapping[str, Any] | None:
        return self._ask("inspect a container", lambda api: api.inspect_container(container))

    def logs(self, container: str, lines: int = 20) -> str:
        """Return the last lines of a container's output; empty when it is gone."""
        raw = self._ask("read logs", lambda api: api.logs(container, tail=lines))
        return raw.decode(errors="replace") if raw else ""

    def stats(self, container: str) -> Mapping[str, Any] | None:
        return self._ask("read usage", lambda api: api.stats(container, stream=False, one_shot=True))

    def execute(self, container: str, command: Sequence[str]) -> tuple[int, str]:
        """Run a command inside a container; returns (exit code, output).  Raises DeploymentFailed where it cannot."""

        def run(api: docker.APIClient) -> tuple[int, str]:
            process = api.exec_create(container, list(command))["Id"]
            stream: Any = api.exec_start(process, socket=True)
            try:  # read here: the SDK leaves the connection open, and loses what came with the headers (its issue 3332)
                output = b"".join(frames(stream._response.raw._fp.fp))
            finally:
                stream._response.close()
                stream.close()
            return exit_code(api, process), output.decode(errors="replace")

        answer = self._ask(f"run {command[0]} in a container", run)
        if answer is None:
            raise DeploymentFailed(f"its container is gone; could not run {' '.join(command)}")
        return answer

    def processes(self, container: str) -> Sequence[tuple[int, str]]:
        """Return (number on the engine's machine, command line) of a container's processes, as far as they are told."""
        try:
            answer = self._ask("list processes", lambda api: api.top(container, ps_args="-eo pid,args"))
        except DeploymentFailed:
            return ()
        rows = answer["Processes"] if answer else ()
        return [(int(row[0]), str(row[1])) for row in rows if len(row) == 2 and str(row[0]).isdigit()]

    def archive(self, container: str, path: str) -> bytes | None:
        """Return a file of a container as a tar archive; None where there is none."""
        answer = self._ask(f"copy {path}", lambda api: api.get_archive(container, path))
        return b"".join(answer[0]) if answer is not None else None

    def takes_file(self, container: str, size: int, owner: Owner) -> bool:
        """Return whether a container of ``owner`` takes a file of so many bytes, which a full disk does not."""
        if self._inspect_owned(container, owner) is None:
            return True
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as archive:
            entry = tarfile.TarInfo("room")
            entry.size = size
            archive.addfile(entry, io.BytesIO(bytes(size)))
        try:
            self._ask("put a file into a container", lambda api: api.put_archive(container, "/", data.getvalue()))
        except DeploymentFailed:
            return False
        return True

    # ------------------------------------------------------------------ images

    def image(self, name: str) -> Mapping[str, Any] | None:
        return self._ask(f"inspect image {name}", lambda api: api.inspect_image(name))  # type: ignore[no-untyped-call]

    def pull(self, name: str) -> str:
        """Pull an image; returns why that failed, empty when the image is there now."""
        try:
            self._ask(f"pull {name}", lambda api: api.pull(name))
        except DeploymentFailed as error:
            return error.reason
        return "" if self.image(name) is not None else "not found in its registry"

    # ------------------------------------------------------------------ containers

    def stop(self, containers: Iterable[str], seconds: int, owner: Owner) -> None:
        """Stop containers of ``owner`` gracefully, in parallel, with a kill after ``seconds``.

        Raises InputError for a container that is not ``owner``'s, which goes on.
        """

        def run(container: str) -> None:
            self._ask("stop a container", lambda api: api.stop(container, timeout=seconds))

        in_parallel(run, self._leave_networks(containers, owner))

    def remove(self, containers: Iterable[str], owner: Owner) -> None:
        """Kill and remove containers of ``owner`` with their anonymous volumes, in parallel; wait until they are gone.

        Raises InputError for a container that is not ``owner``'s, which stays as it is.
        """
        in_parallel(lambda container: self._remove(container, owner), self._leave_networks(containers, owner))

    def _leave_networks(self, containers: Iterable[str], owner: Owner) -> list[str]:
        """Return those of ``owner``'s containers that exist, detached from their networks where the engine needs that.

        An engine before 28 that stops several at the same time miscounts the endpoints left in a network, and then
        keeps the network until it is restarted (20.10 with eight containers in two networks: 5 times in 28).  So
        several containers are detached one after the other first.
        """
        names = list(containers)
        details = dict(zip(names, in_parallel(lambda name: self._inspect_owned(name, owner), names), strict=True))
        existing = [name for name in names if details[name] is not None]
        if len(existing) < 2 or not self._miscounts():
            return existing
        for container in existing:
            about = details[container] or {}
            for network in about["NetworkSettings"]["Networks"] if about["State"]["Running"] else ():
                with suppress(DeploymentFailed):  # it has just ended, or its network cannot be left
                    self._ask("detach", partial(_detach, container=container, network=network))
        return existing

    def _miscounts(self) -> bool:
        if self._miscounting is None:
            major = str(self.version().get("Version", "0")).partition(".")[0]
            self._miscounting = not major.isdigit() or int(major) < FIRST_SOUND
        return self._miscounting

    def _remove(self, container: str, owner: Owner) -> None:
        def run(api: docker.APIClient) -> None:
            try:
                api.remove_container(container, v=True, force=True)
            except docker.errors.APIError as error:
                if "already in progress" not in str(error.explanation):
                    raise
                api.wait(container, condition="removed")

        if self._inspect_owned(container, owner) is not None:
            self._ask("remove a container", run)

    def _inspect_owned(self, container: str, owner: Owner) -> Mapping[str, Any] | None:
        """Inspect a container; None where it does not exist.  Raises InputError where it is not ``owner``'s."""
        about = self.inspect(container)
        if about is not None and not owner.owns(about["Config"].get("Labels")):
            raise _not_owned("container", str(about["Name"]).lstrip("/"), owner)
        return about

    def create(
        self, image: str, command: Sequence[str], owner: Owner, labels: Mapping[str, str], name: str = "",
        host: Mapping[str, Any] | None = None, **options: Any,
    ) -> str:  # fmt: skip
        """Create a container of ``owner`` without starting it; returns its id.

        ``owner``'s container of this name is replaced.  ``host``: options of the host configuration; ``options``: of
        the container; both have the library's names.  Raises DeploymentFailed where its image is not here, InputError
        where the name is somebody else's.
        """
        if name:
            self._remove(name, owner)

        def run(api: docker.APIClient) -> str:
            config = api.create_host_config(**(host or {}))
            marked = owner.marked(labels)
            made = api.create_container(image, list(command), name=name or None, labels=marked, host_config=config,
                                        **options)  # fmt: skip
            return str(made["Id"])

        container = self._ask(f"create a container of {image}", run)
        if container is None:
            raise DeploymentFailed(f"image {image} is not on this machine")
        return container

    def run(
        self,
        image: str,
        command: Sequence[str],
        owner: Owner,
        volumes: Mapping[str, str],
        read_only: Sequence[ReadOnly] = (),
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Run one command as root in a fresh container without a network; returns its output.

        ``volumes``: name -> path at which it is mounted to be written.  The container is removed whatever happens.
        Raises DeploymentFailed when the command fails.
        """
        mounts = [
            docker.types.Mount(target=path, source=name, type="volume", no_copy=True) for name, path in volumes.items()
        ]
        mounts += [
            docker.types.Mount(
                target=data.target, source=data.source, type=data.kind, read_only=True, no_copy=data.kind == "volume"
            )
            for data in read_only
        ]
        host = {"mounts": mounts, "network_mode": "none"}
        container = self.create(
            image, command[1:], owner, labels, host=host, entrypoint=list(command[:1]), user="0",
            healthcheck={"test": ["NONE"]},
        )  # fmt: skip
        try:
            self._ask(f"start {command[0]}", lambda api: api.start(container))
            ended: Mapping[str, Any] = (
                self._ask(f"wait for {command[0]}", lambda api: api.wait(container, timeout=600)) or {}
            )
            output = self.logs(container)
        finally:
            self._remove(container, owner)
        if ended.get("StatusCode") != 0:
            raise DeploymentFailed(f"{' '.join(command)} ended with {ended.get('StatusCode')}", log=output)
        return output

    def start(
        self, image: str, command: Sequence[str], name: str, owner: Owner, labels: Mapping[str, str],
        host: Mapping[str, Any], **options: Any,
    ) -> str:  # fmt: skip
        """Create a container as ``create`` does, and start it; returns its id."""
        container = self.create(image, command, owner, labels, name, host, **options)
        try:
            self._ask(f"start {image}", lambda api: api.start(container))
        except BaseException:
            self._remove(container, owner)
            raise
        return container

    def set_cpus(self, container: str, cpus: str, owner: Owner) -> None:
        """Move a running container to a list of CPUs.  Raises DeploymentFailed where it is gone."""

        def run(api: docker.APIClient) -> bool:
            api.update_container(container, cpuset_cpus=cpus)
            return True

        existing = self._inspect_owned(container, owner)
        if existing is None or self._ask(f"move a container to the CPUs {cpus}", run) is None:
            raise DeploymentFailed(f"its container is gone; could not move it to the CPUs {cpus}")

    # ------------------------------------------------------------------ volumes and networks

    def volumes(self, label: str) -> list[Mapping[str, Any]]:
        reply = self._ask("list volumes", lambda api: api.volumes(filters={"label": label})) or {}
        return reply.get("Volumes") or []

    def volume(self, name: str) -> Mapping[str, Any] | None:
        return self._ask("inspect a volume", lambda api: api.inspect_volume(name))

    def create_volume(
        self, name: str, owner: Owner, labels: Mapping[str, str], options: Mapping[str, str] | None = None
    ) -> None:
        """Create a volume of the local driver; keep an existing one of ``owner``.  Raises InputError for another's."""

        def run(api: docker.APIClient) -> Mapping[str, Any]:
            return api.create_volume(name, driver="local", driver_opts=dict(options or {}), labels=owner.marked(labels))

        made = self._ask(f"create volume {name}", run) or {}  # the engine returns an existing one as it is
        for _ in range(VOLUME_ATTEMPTS):
            if made.get("Labels"):
                break
            time.sleep(PAUSE_S)  # an engine that was just started again may not know them yet
            made = self.volume(name) or {}
        if not owner.owns(made.get("Labels")):
            raise _not_owned("volume", name, owner)

    def remove_volume(self, name: str, owner: Owner) -> None:
        """Remove a volume of ``owner``, and first the containers of ``owner`` that use it.

        Raises DeploymentFailed when that does not help, InputError where the volume or its user is somebody else's.
        """

        def run(api: docker.APIClient) -> None:
            for attempt in range(VOLUME_ATTEMPTS):
                try:
                    api.remove_volume(name)
                    return
                except docker.errors.APIError as error:
                    users = _USERS.search(str(error.explanation))
                    if users is None or attempt == VOLUME_ATTEMPTS - 1:
                        raise
                    for container in users[1].split(", "):
                        self._remove(container, owner)  # may still be being created, and so not listed yet
                    time.sleep(PAUSE_S)

        about = self.volume(name)
        if about is None:
            return
        if not owner.owns(about.get("Labels")):
            raise _not_owned("volume", name, owner)
        self._ask(f"remove volume {name}", run)

    def networks(self, label: str) -> list[Mapping[str, Any]]:
        return self._ask("list networks", lambda api: api.networks(filters={"label": label})) or []

    def remove_network(self, network: str, owner: Owner) -> bool:
        """Remove a network of ``owner``, and first ``owner``'s containers that are attached; returns whether it went.

        Existing containers are not detached by force: engines before 28 may then count endpoints that are gone, and
        keep the empty network until they are restarted.  False: the engine does that, or somebody else's container is
        attached.  Raises InputError where the network is not ``owner``'s.
        """

        def run(api: docker.APIClient) -> bool:
            about = api.inspect_network(network)
            if not owner.owns(about.get("Labels")):
                raise _not_owned("network", str(about.get("Name", network)), owner)
            for attempt in range(NETWORK_ATTEMPTS):
                if not self._empty_network(api, network, owner, patient=attempt < NETWORK_ATTEMPTS // 2):
                    return False
                try:
                    api.remove_network(network)
                    return True
                except docker.errors.APIError as error:
                    if "has active endpoints" not in str(error.explanation):
                        raise
                    time.sleep(PAUSE_S * (attempt + 1))
            return False

        return self._ask("remove a network", run) is not False

    def _empty_network(self, api: docker.APIClient, network: str, owner: Owner, *, patient: bool) -> bool:
        """Remove ``owner``'s containers that are attached; False: somebody else's is attached.

        ``patient``: leave endpoints whose container is gone, which may go by themselves; else detach them by the name
        that the container had.
        """
        attached = api.inspect_network(network).get("Containers") or {}
        for container, endpoint in attached.items():
            about = None if container.startswith("ep-") else self.inspect(container)
            if about is None:
                if not patient:
                    api.disconnect_container_from_network(endpoint["Name"], network, force=True)
            elif owner.owns(about["Config"].get("Labels")):
                self._remove(container, owner)
            else:
                return False
        return True


def _detach(api: docker.APIClient, container: str, network: str) -> None:
    api.disconnect_container_from_network(container, network)


def _not_owned(what: str, name: str, owner: Owner) -> InputError:
    """Return an InputError: no configuration is at fault, and trying again does not help."""
    return InputError(f"the {what} {name} was not made for {owner}, and is left alone; rename it, or remove it")
