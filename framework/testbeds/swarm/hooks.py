"""One-shot services of an application on a swarm: containers of the home node, on the service's own networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.errors import InputError, TrialFailed
from framework.model import Hook
from framework.model.side_container import SideContainer
from framework.ports.side_containers import SideContainers
from framework.testbeds.docker.document import Wanted

LINES = 20  # of the output of one that failed
WITHOUT_EFFECT = frozenset({
    "build", "container_name", "depends_on", "deploy", "expose", "healthcheck", "init", "labels", "logging", "platform",
    "profiles", "pull_policy", "restart", "scale", "stdin_open", "stop_grace_period", "tty",
})  # fmt: skip
"""Keys that change nothing of a command that runs once to its end."""

DONE = frozenset({"image", "command", "entrypoint", "environment", "working_dir", "networks"})


def run(containers: SideContainers, want: Wanted, project: str, hook: Hook) -> str:
    """Run a one-shot service to its end; return its output.

    Raises InputError for a service that a swarm's side container cannot be, TrialFailed where its status is not 0.
    """
    wanted = side_container(want, project, hook)
    lines: list[bytes] = []
    ended = containers.run(wanted, lines.append)
    output = b"\n".join(lines).decode(errors="replace")
    if ended.status != 0 or ended.late:
        last = [*output.splitlines()[-LINES:], *ended.errors.splitlines()[-LINES:]]
        how = f"took more than {hook.timeout_s:g} s" if ended.late else f"ended with {ended.status}"
        raise TrialFailed("\n".join([f"{hook.service} {how}", *(f"  | {line}" for line in last)]))
    return output


def side_container(want: Wanted, project: str, hook: Hook) -> SideContainer:
    """Return the container of a one-shot service.  Raises InputError."""
    body = want.document["services"].get(hook.service)
    if body is None:
        raise InputError(f"hooks: {hook.service} is no service of the compose file")
    refused = sorted(key for key, value in body.items() if value and key not in WITHOUT_EFFECT | DONE)
    if refused:
        raise InputError(f"hooks: {hook.service} has {', '.join(refused)}, which a hook on a swarm cannot have")
    entry, command = _words(body.get("entrypoint")), hook.command or _words(body.get("command"))
    networks = [f"{project}_{key}" for key in body.get("networks") or ("default",)]
    environment = body.get("environment") or {}
    pairs = environment if isinstance(environment, Mapping) else dict(i.partition("=")[::2] for i in environment)
    return SideContainer(
        image=str(body["image"]),
        command=(*entry[1:], *command),
        name=f"{project}-{hook.service}",
        project=project,
        network=networks[0],
        also=tuple(networks[1:]),
        labels=dict(want.labels),
        limit_s=hook.timeout_s,
        program=entry[0] if entry else "",
        environment={key: str(value) for key, value in pairs.items()},
        directory=str(body.get("working_dir") or ""),
    )


def _words(value: Any) -> Sequence[str]:
    """Return a command as words; a text is for a shell, as in compose."""
    return ("/bin/sh", "-c", value) if isinstance(value, str) else tuple(map(str, value or ()))
