"""The calls to a manager of a swarm: its nodes, and the services, networks, configs and secrets of a stack.

Every call that removes something names its owner, and first checks that the thing bears the owner's label.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from framework.errors import DeploymentFailed, TestbedUnavailable
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.owner import Owner

STACK_S = 120.0  # for the command to hand over a stack: it does not wait for containers
LEAVE_S = 30.0  # for a network until the last container has left it
PAUSE_S = 0.2


def seconds_of(told: str) -> float:
    """Return an engine's time (RFC 3339) in seconds since the Unix epoch; 0 where it is none."""
    try:
        return datetime.fromisoformat(told).timestamp()
    except ValueError:
        return 0.0


class Manager:
    """A manager node.  ``endpoint``: a URL or a docker context."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._connection = Connection(endpoint=endpoint)

    def _ask(self, what: str, call: Callable[[Any], Any]) -> Any:
        """Return the manager's answer, of which the library knows no types; None where the thing does not exist."""
        return self._connection.ask(what, call)

    def nodes(self) -> Sequence[Mapping[str, Any]]:
        listed: Sequence[Mapping[str, Any]] = self._ask("list the swarm's nodes", lambda api: api.nodes()) or []
        return listed

    def info(self) -> Mapping[str, Any]:
        """Return what the manager's engine says of itself.  Raises TestbedUnavailable."""
        told: Mapping[str, Any] = self._ask("tell about itself", lambda api: api.info()) or {}
        return told

    def lost_between(self, since_s: float, until_s: float) -> set[str]:
        """Return the ids of the nodes that the swarm lost between two times on the manager's clock, back or not."""

        def events(api: Any) -> list[Mapping[str, Any]]:
            return list(api.events(since=since_s, until=until_s, filters={"type": "node"}, decode=True))

        told = [event.get("Actor") or {} for event in self._ask("list the swarm's events", events) or []]
        states = [(str(actor.get("ID")), (actor.get("Attributes") or {}).get("state.new")) for actor in told]
        return {node for node, state in states if state not in (None, "ready")}

    def deploy(self, project: str, file: Path) -> None:
        """Hand over a stack's document.  Raises DeploymentFailed, TestbedUnavailable."""
        where = ["-H", self.endpoint] if "://" in self.endpoint else ["--context", self.endpoint]
        command = ["docker", *where, "stack", "deploy", "--resolve-image", "never", "-c", str(file), project]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=STACK_S, check=False)
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
        labels = [thing["Spec"].get("Labels") or {} for thing in listed]
        networks = self._ask("list networks", lambda api: api.networks(filters=filters)) or []
        labels += [network.get("Labels") or {} for network in networks]
        return {marks[label] for marks in labels if label in marks}

    def remove_services(self, owner: Owner) -> list[str]:
        """Remove an owner's services; return their names."""
        removed = []
        for service in self._services(owner):
            self._remove("service", str(service["ID"]))
            removed.append(str(service["Spec"]["Name"]))
        return removed

    def remove_rest(self, owner: Owner) -> list[str]:
        """Remove an owner's networks, configs and secrets; its containers have ended.  Raises DeploymentFailed."""
        filters = {"label": str(owner)}
        removed = []
        for network in self._ask("list networks", lambda api: api.networks(filters=filters)) or []:
            if network.get("Scope") == "swarm" and owner.owns(network.get("Labels")):
                self._remove_network(str(network["Id"]))
                removed.append(f"network {network['Name']}")
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

    def _remove(self, kind: str, number: str) -> None:
        self._ask(f"remove a {kind}", lambda api: getattr(api, f"remove_{kind}")(number))

    def _remove_network(self, network: str) -> None:
        deadline = time.monotonic() + LEAVE_S
        while True:
            try:
                self._ask("remove a network", lambda api: api.remove_network(network))
                return
            except DeploymentFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)
