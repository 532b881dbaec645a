"""The calls to a manager of a swarm: its nodes, and the services, networks, configs and secrets of a stack.

Every call that removes something names its owner, and first checks that the thing bears the owner's label.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.owner import Owner

STACK_S = 120.0  # for the command to hand over a stack: it does not wait for containers
LEAVE_S = 30.0  # for a network until the last container has left it
PAUSE_S = 0.2
CLOSE_S = 2.0  # for the end of a stream


def seconds_of(told: str) -> float:
    """Return an engine's time (RFC 3339) in seconds since the Unix epoch; 0 where it is none."""
    try:
        return datetime.fromisoformat(told).timestamp()
    except ValueError:
        return 0.0


class Manager:
    """A manager node.  ``endpoint``: a URL or a docker context.  ``leave_s``: for what is removed to be gone."""

    def __init__(self, endpoint: str, leave_s: float = LEAVE_S) -> None:
        self.endpoint, self._leave_s = endpoint, leave_s
        self._connection = Connection(endpoint=endpoint)

    def _ask(self, what: str, call: Callable[[Any], Any]) -> Any:
        """Return the manager's answer, of which the library knows no types; None where the thing does not exist."""
        return self._connection.ask(what, call)

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        listed: Sequence[Mapping[str, Any]] = self._ask("list the swarm's nodes", lambda api: api.nodes()) or []
        return listed

    def node_events(self) -> Any:
        """Return the stream of the nodes' events from now on, which can be closed.  Raises TestbedUnavailable."""
        return self._ask("follow the swarm's nodes", lambda api: api.events(filters={"type": "node"}, decode=True))

    def deploy(self, project: str, file: Path) -> None:
        """Hand over a stack's document.  Raises DeploymentFailed, TestbedUnavailable."""
        try:
            docker, environment = self._connection.endpoint.command()
        except (DockerException, OSError) as error:
            raise TestbedUnavailable(f"the manager {self.endpoint} does not answer: {error}") from error
        command = [*docker, "stack", "deploy", "--resolve-image", "never", "-c", str(file), project]
        try:
            # In a session of its own: Ctrl-C at a terminal is for this process.
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=STACK_S, check=False,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise TestbedUnavailable("there is no docker command, which deploys stacks") from error
        except subprocess.TimeoutExpired as error:
            raise TestbedUnavailable(f"docker stack deploy took more than {STACK_S:g} s") from error
        if done.returncode:
            said = done.stderr.strip().splitlines()[-3:]
            if any("Cannot connect" in line or "does not have a leader" in line for line in said):
                raise TestbedUnavailable(f"the manager {self.endpoint} does not answer: {' '.join(said)}")
            raise DeploymentFailed("the swarm refuses the stack", log="\n".join(said))

    def tasks(self, owner: Owner) -> Sequence[Mapping[str, Any]]:
        """Return the tasks of an owner's services, ended ones too."""
        names = [str(service["Spec"]["Name"]) for service in self._services(owner)]
        if not names:
            return []
        listed: Sequence[Mapping[str, Any]] = (
            self._ask("list tasks", lambda api: api.tasks(filters={"service": names})) or []
        )
        return listed

    def projects(self, label: str) -> set[str]:
        """Return the values of a label on services, networks, configs and secrets."""
        filters = {"label": label}
        listed = [
            *(self._ask("list services", lambda api: api.services(filters=filters)) or []),
            *(self._ask("list configs", lambda api: api.configs(filters=filters)) or []),
            *(self._ask("list secrets", lambda api: api.secrets(filters=filters)) or []),
        ]
        labels = [entry["Spec"].get("Labels") or {} for entry in listed]
        networks = self._ask("list networks", lambda api: api.networks(filters=filters)) or []
        labels += [network.get("Labels") or {} for network in networks]
        return {marks[label] for marks in labels if label in marks}

    def remove_services(self, owner: Owner) -> list[str]:
        """Remove an owner's services; return their names.  Raises DeploymentFailed where one stays listed."""
        removed = []
        for service in self._services(owner):
            self._remove("service", str(service["ID"]))
            removed.append(str(service["Spec"]["Name"]))
        self._wait_gone("services", lambda: self._services(owner))
        return removed

    def remove_networks(self, owner: Owner) -> list[str]:
        """Remove an owner's overlay networks, which no container is on; return them.  Raises DeploymentFailed."""
        removed = []
        for network in self._networks(owner):
            self._remove_network(str(network["Id"]))
            removed.append(f"network {network['Name']}")
        self._wait_gone("networks", lambda: self._networks(owner))
        return removed

    def remove_rest(self, owner: Owner) -> list[str]:
        """Remove an owner's networks, configs and secrets; its containers have ended.  Raises DeploymentFailed."""
        filters = {"label": str(owner)}
        removed = self.remove_networks(owner)
        for config in self._ask("list configs", lambda api: api.configs(filters=filters)) or []:
            if owner.owns(config["Spec"].get("Labels")):
                self._remove("config", str(config["ID"]))
                removed.append(f"config {config['Spec']['Name']}")
        for secret in self._ask("list secrets", lambda api: api.secrets(filters=filters)) or []:
            if owner.owns(secret["Spec"].get("Labels")):
                self._remove("secret", str(secret["ID"]))
                removed.append(f"secret {secret['Spec']['Name']}")
        return removed

    def _services(self, owner: Owner) -> Sequence[Mapping[str, Any]]:
        filters = {"label": str(owner)}
        listed = self._ask("list services", lambda api: api.services(filters=filters)) or []
        return [service for service in listed if owner.owns(service["Spec"].get("Labels"))]

    def _networks(self, owner: Owner) -> Sequence[Mapping[str, Any]]:
        filters = {"label": str(owner)}
        listed = self._ask("list networks", lambda api: api.networks(filters=filters)) or []
        return [network for network in listed
                if network.get("Scope") == "swarm" and owner.owns(network.get("Labels"))]  # fmt: skip

    def _wait_gone(self, what: str, listed: Callable[[], Sequence[object]]) -> None:
        """Wait until the manager lists no more of what was removed.

        One that does not lead the others learns of it later, and the next stack would be put onto what is gone.
        """
        deadline = time.monotonic() + self._leave_s
        while listed():
            if time.monotonic() > deadline:
                raise DeploymentFailed(f"the swarm still lists {what} that were removed {self._leave_s:g} s ago")
            time.sleep(PAUSE_S)

    def _remove(self, kind: str, number: str) -> None:
        self._ask(f"remove a {kind}", lambda api: getattr(api, f"remove_{kind}")(number))

    def _remove_network(self, network: str) -> None:
        deadline = time.monotonic() + self._leave_s
        while True:
            try:
                self._ask("remove a network", lambda api: api.remove_network(network))
                return
            except DeploymentFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)


class LossWatch:
    """Notes from now on which nodes a swarm loses, also those that come back; ``lost``: their ids.

    A manager keeps its last 256 events only, of which health checks fill many: they have to be followed.
    """

    def __init__(self, manager: Manager) -> None:
        self.lost: set[str] = set()
        self._endpoint = manager.endpoint
        self._events = manager.node_events()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def goes_on(self, manager: Manager) -> bool:
        """Return whether it still follows this manager."""
        return self._thread.is_alive() and self._endpoint == manager.endpoint

    def close(self) -> None:
        """End it; a stream that cannot be closed ends with this process."""
        with suppress(DockerException, OSError):
            self._events.close()
            self._thread.join(CLOSE_S)

    def _follow(self) -> None:
        with suppress(DockerException, OSError, ValueError):  # the engine's end is noticed elsewhere
            for event in self._events:
                actor = event.get("Actor") or {}
                if (actor.get("Attributes") or {}).get("state.new") not in (None, "ready"):
                    self.lost.add(str(actor.get("ID")))
