"""The Docker Engine as the testbed needs it: a few calls, and the one place where something of it is changed.

Whatever changes or removes something says for whom, and first looks whether the thing bears that owner's label: what
Tailor did not make is never touched, whatever it is called.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from framework.testbeds.docker.listed import Listed, listed
from framework.testbeds.docker.owner import Owner

_USERS = re.compile(r"volume is in use - \[([0-9a-f, ]+)\]")

ENDINGS, ENDING_S = 100, 0.05  # how often a command that has nothing more to say is asked whether it has ended
ATTEMPTS_TO_FREE = 10  # a container whose creation was cut off shows up within a second or two
FIRST_THAT_COUNTS = 28  # major version of the engine
ATTEMPTS_TO_PART = 5  # an endpoint that was being made is let go within a second or two


@dataclass(frozen=True, slots=True)
class Read:
    """A volume, or a directory of the engine's machine, that a container only reads."""

    kind: Literal["volume", "bind"]
    source: str
    target: str


class Engine:
    """The engine that ``DOCKER_HOST`` names, or the local one."""

    def __init__(self, attempts: int = ATTEMPTS) -> None:
        self._connection = Connection(attempts)
        self._ask = self._connection.ask
        self._flawed: bool | None = None  # not known yet

    # ------------------------------------------------------------------ asking

    def version(self) -> Mapping[str, Any]:
        return self._ask("tell its version", lambda api: api.version()) or {}

    def info(self) -> Mapping[str, Any]:
        return self._ask("describe itself", lambda api: api.info()) or {}

    def containers(self, label: str | None = None) -> list[Listed]:
        """All containers, running or not, with ``label`` ("key" or "key=value"); None: every one."""
        filters = {"label": label} if label else {}
        found = self._ask("list containers", lambda api: api.containers(all=True, filters=filters)) or []
        return [listed(entry) for entry in found]

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

    def stop(self, containers: Iterable[str], seconds: int, owner: Owner) -> None:
        """Stop containers of ``owner`` gracefully, all at once, with a kill after ``seconds``.

        Raises InputError for one that is not ``owner``'s, which goes on.
        """

        def run(container: str) -> None:
            self._ask("stop a container", lambda api: api.stop(container, timeout=seconds))

        in_parallel(run, self._detached(containers, owner))

    def remove(self, containers: Iterable[str], owner: Owner) -> None:
        """Kill and remove containers of ``owner`` with their anonymous volumes, all at once; done when they are gone.

        Raises InputError for one that is not ``owner``'s, which stays as it is.
        """
        in_parallel(lambda container: self._remove(container, owner), self._detached(containers, owner))

    def _detached(self, containers: Iterable[str], owner: Owner) -> list[str]:
        """Those of ``owner``'s containers that are there, taken from their networks one after the other where there
        are several: an engine before 28 that lets several go at the same time miscounts what is left in a network, and
        then keeps the network until it is restarted (20.10 with eight containers in two networks: 5 times in 28).
        """
        names = list(containers)
        found = dict(zip(names, in_parallel(lambda one: self._owned_container(one, owner), names), strict=True))
        there = [name for name in names if found[name] is not None]
        if len(there) < 2 or not self._miscounts():
            return there
        for container in there:
            about = found[container] or {}
            for network in about["NetworkSettings"]["Networks"] if about["State"]["Running"] else ():
                with suppress(DeploymentFailed):  # it has just ended, or has a network that nobody can leave
                    self._ask("detach", partial(_detach, container=container, network=network))
        return there

    def _miscounts(self) -> bool:
        if self._flawed is None:
            major = str(self.version().get("Version", "0")).partition(".")[0]
            self._flawed = not major.isdigit() or int(major) < FIRST_THAT_COUNTS
        return self._flawed

    def _remove(self, container: str, owner: Owner) -> None:
        def run(api: docker.APIClient) -> None:
            try:
                api.remove_container(container, v=True, force=True)
            except docker.errors.APIError as error:
                if "already in progress" not in str(error.explanation):
                    raise
                api.wait(container, condition="removed")

        if self._owned_container(container, owner) is not None:
            self._ask("remove a container", run)

    def _owned_container(self, container: str, owner: Owner) -> Mapping[str, Any] | None:
        """What it is; None where it is not there.  Raises InputError where it is not ``owner``'s."""
        found = self.inspect(container)
        if found is not None and not owner.owns(found["Config"].get("Labels")):
            raise _strange("container", str(found["Name"]).lstrip("/"), owner)
        return found

    def create(
        self, image: str, command: Sequence[str], owner: Owner, labels: Mapping[str, str], name: str = "",
        host: Mapping[str, Any] | None = None, **options: Any,
    ) -> str:  # fmt: skip
        """Create a container of ``owner`` that is not started yet; returns its id.

        One of this name is replaced.  ``host``: of its host configuration; ``options``: of the container, both in the
        library's words.  Raises DeploymentFailed: its image is not here; InputError: something else has the name.
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
        reads: Sequence[Read] = (),
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Run one command as root in a fresh container without a network; returns its output.

        ``volumes``: name -> path where it is written; ``reads``: what is only read.  The container is removed whatever
        happens.  Raises DeploymentFailed when the command fails.
        """
        mounts = [
            docker.types.Mount(target=path, source=name, type="volume", no_copy=True) for name, path in volumes.items()
        ]
        mounts += [
            docker.types.Mount(
                target=one.target, source=one.source, type=one.kind, read_only=True, no_copy=one.kind == "volume"
            )
            for one in reads
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
        self, image: str, command: Sequence[str], name: str, owner: Owner, labels: Mapping[str, str], cpus: str
    ) -> str:
        """Start a container without a network on some CPUs; returns its id.  One of this name is replaced."""
        host = {"network_mode": "none", "cpuset_cpus": cpus or None}
        container = self.create(image, command, owner, labels, name, host)
        try:
            self._ask(f"start {image}", lambda api: api.start(container))
        except BaseException:
            self._remove(container, owner)
            raise
        return container

    def set_cpus(self, container: str, cpus: str, owner: Owner) -> None:
        """Move a container that runs to a list of CPUs.  Raises DeploymentFailed."""

        def run(api: docker.APIClient) -> bool:
            api.update_container(container, cpuset_cpus=cpus)
            return True

        there = self._owned_container(container, owner)
        if there is None or self._ask(f"move a container to the CPUs {cpus}", run) is None:
            raise DeploymentFailed(f"its container is gone; could not move it to the CPUs {cpus}")

    # ------------------------------------------------------------------ volumes and networks

    def volumes(self, label: str) -> list[Mapping[str, Any]]:
        found = self._ask("list volumes", lambda api: api.volumes(filters={"label": label})) or {}
        return found.get("Volumes") or []

    def volume(self, name: str) -> Mapping[str, Any] | None:
        return self._ask("inspect a volume", lambda api: api.inspect_volume(name))

    def create_volume(
        self, name: str, owner: Owner, labels: Mapping[str, str], options: Mapping[str, str] | None = None
    ) -> None:
        """Create a volume of the local driver; ``owner``'s own that is there under this name is left as it is.

        Raises InputError where the name is something else's.
        """

        def run(api: docker.APIClient) -> Mapping[str, Any]:
            return api.create_volume(name, driver="local", driver_opts=dict(options or {}), labels=owner.marked(labels))

        made = self._ask(f"create volume {name}", run) or {}  # the engine gives one that is there as it is
        if not owner.owns(made.get("Labels")):
            raise _strange("volume", name, owner)

    def remove_volume(self, name: str, owner: Owner) -> None:
        """Remove a volume of ``owner``, and first whatever container of ``owner`` uses it.

        Raises DeploymentFailed when that does not help, InputError where the volume, or what uses it, is somebody
        else's.
        """

        def run(api: docker.APIClient) -> None:
            for attempt in range(ATTEMPTS_TO_FREE):
                try:
                    api.remove_volume(name)
                    return
                except docker.errors.APIError as error:
                    users = _USERS.search(str(error.explanation))
                    if users is None or attempt == ATTEMPTS_TO_FREE - 1:
                        raise
                    for container in users[1].split(", "):
                        self._remove(container, owner)  # may still be in the making, and so not be listed yet
                    time.sleep(PAUSE_S)

        found = self.volume(name)
        if found is None:
            return
        if not owner.owns(found.get("Labels")):
            raise _strange("volume", name, owner)
        self._ask(f"remove volume {name}", run)

    def networks(self, label: str) -> list[Mapping[str, Any]]:
        return self._ask("list networks", lambda api: api.networks(filters={"label": label})) or []

    def remove_network(self, network: str, owner: Owner) -> bool:
        """Remove a network of ``owner``, and first its containers that are still attached.

        Nothing that is there is detached by force: engines before 28 may then count endpoints that are gone, and keep
        the empty network until they are restarted.  False: that is so, or something else is attached.  Raises
        InputError where the network is not ``owner``'s.
        """

        def run(api: docker.APIClient) -> bool:
            found = api.inspect_network(network)
            if not owner.owns(found.get("Labels")):
                raise _strange("network", str(found.get("Name", network)), owner)
            for attempt in range(ATTEMPTS_TO_PART):
                if not self._emptied(api, network, owner, patient=attempt < ATTEMPTS_TO_PART // 2):
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

    def _emptied(self, api: docker.APIClient, network: str, owner: Owner, *, patient: bool) -> bool:
        """Remove ``owner``'s containers that are attached; False: something else is.

        ``patient``: an endpoint whose container is gone is given time to go, too; else it is detached by the name that
        its container had.
        """
        attached = api.inspect_network(network).get("Containers") or {}
        for container, about in attached.items():
            found = None if container.startswith("ep-") else self.inspect(container)
            if found is None:
                if not patient:
                    api.disconnect_container_from_network(about["Name"], network, force=True)
            elif owner.owns(found["Config"].get("Labels")):
                self._remove(container, owner)
            else:
                return False
        return True


def _detach(api: docker.APIClient, container: str, network: str) -> None:
    api.disconnect_container_from_network(container, network)


def _strange(what: str, name: str, owner: Owner) -> InputError:
    """No configuration is to blame, and trying again does not help."""
    return InputError(f"the {what} {name} was not made for {owner}, and is left alone; rename it, or remove it")


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
