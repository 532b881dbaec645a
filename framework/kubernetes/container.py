"""The container of a pod: image, command, variables, probe, resources and rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.compose.allow_list import members, pairs
from framework.compose.command import words_of
from framework.compose.secrets import without_secrets
from framework.config.compose_files import environment_of
from framework.kubernetes.amounts import cpus, memory, seconds, whole_seconds
from framework.kubernetes.names import is_variable, literal
from framework.kubernetes.said import Said
from framework.kubernetes.sources import NotCarried, Sources
from framework.ports.builds import BUILT

_PULL = {"always": "Always", "never": "Never", "missing": "IfNotPresent", "if_not_present": "IfNotPresent"}
OWN = "tailor/"  # images that `make images` builds


def image_of(name: str, entry: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """Return ``image`` and ``imagePullPolicy``; an image that only this machine has is said."""
    image, policy = str(entry.get("image") or ""), str(entry.get("pull_policy") or "")
    local = bool(entry.get("build")) or image.startswith((OWN, BUILT))
    if not image:
        said.refuse(
            name, "build", "it is built and has no name of an image: push it to a registry and name it (`image:`)"
        )
        return {}
    if local:
        said.say(name, "image", f"{image} is built on this machine: push it to a registry of the cluster and change "
                 "the name, or load it on every node")  # fmt: skip
    if policy and policy not in _PULL and not local:
        said.say(name, "pull_policy", f"{policy} has no counterpart; Kubernetes decides by the image's tag")
    pull = "IfNotPresent" if local else _PULL.get(policy)
    return {"image": image, **({"imagePullPolicy": pull} if pull else {})}


def command_of(name: str, entry: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """Return ``command`` (compose's entrypoint), ``args`` (its command), and the working directory."""
    written: dict[str, Any] = {}
    entrypoint, command = words_of(entry.get("entrypoint")), words_of(entry.get("command"))
    if entrypoint:
        written["command"] = [literal(word) for word in entrypoint]
    elif entrypoint is not None:  # the image's own is taken away
        if command:
            written["command"], command = [literal(word) for word in command], None
        else:
            said.refuse(
                name, "entrypoint", "it is empty, which takes the image's entry point away: write the command out"
            )
    if command:
        written["args"] = [literal(word) for word in command]
    if entry.get("working_dir"):
        written["workingDir"] = str(entry["working_dir"])
    written |= {key: True for key, given in (("tty", "tty"), ("stdin", "stdin_open")) if entry.get(given) is True}
    return written


# --------------------------------------------------------------------------- variables


def variables_of(name: str, entry: Mapping[str, Any], sources: Sources, said: Said) -> dict[str, str]:
    """Return the variables of a service, from its environment files and its own."""
    variables: dict[str, str] = {}
    for listed in members(entry.get("env_file")):
        path = str(listed.get("path") if isinstance(listed, Mapping) else listed)
        try:
            variables |= _assignments(name, sources.text(path), said)
        except NotCarried as reason:
            said.refuse(name, "env_file", f"{path.rpartition('/')[2]} is {reason}")
    variables |= environment_of(entry)
    for variable, value in pairs(entry.get("environment")):
        if value is None:
            said.say(
                name, f"environment.{variable}", "its value comes from the shell that starts compose: it is not set"
            )
    for variable in [key for key in variables if not is_variable(key)]:
        said.refuse(name, f"environment.{variable}", "not a name of a variable that every Kubernetes takes")
        del variables[variable]
    return variables


def _assignments(name: str, text: str, said: Said) -> dict[str, str]:
    """Read ``NAME=value`` lines; quotes around a value are taken off."""
    assigned: dict[str, str] = {}
    for line in text.splitlines():
        variable, given, value = line.strip().removeprefix("export ").partition("=")
        if not given or variable.startswith("#"):
            continue
        value = value.strip()
        quote = value[:1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else ""
        if quote != "'" and ("$" in value or "\\" in value):
            said.refuse(
                name, f"env_file: {variable.strip()}", "its value has variables or escapes that only compose fills in"
            )
        assigned[variable.strip()] = value[1:-1] if quote else value.partition(" #")[0].rstrip()
    return assigned


def split_secrets(variables: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split variables into those that look like secrets and the others."""
    secret = {name: value for name, value in variables.items() if value and without_secrets(value, name) != value}
    return secret, {name: value for name, value in variables.items() if name not in secret}


# --------------------------------------------------------------------------- probe


def probe_of(name: str, entry: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """Return the readiness probe of a health check: Docker restarts nothing that is unhealthy, so it is no liveness."""
    check = entry.get("healthcheck")
    if not isinstance(check, Mapping) or check.get("disable") in (True, "true"):
        return {}
    test = check.get("test")
    words = ["CMD-SHELL", test] if isinstance(test, str) else [str(word) for word in test or ()]
    if not words or words[0] == "NONE":
        if not words:
            said.say(name, "healthcheck", "the image's own check is not known here: there is no readiness probe")
        return {}
    if words[0] not in ("CMD", "CMD-SHELL") or len(words) < 2:
        said.refuse(name, "healthcheck.test", f"found {words[0]!r}, which is neither CMD nor CMD-SHELL")
        return {}
    command = ["/bin/sh", "-c", " ".join(words[1:])] if words[0] == "CMD-SHELL" else words[1:]
    probe: dict[str, Any] = {"exec": {"command": [literal(word) for word in command]}}
    # Docker's defaults: every 30 s, 30 s long, 3 in a row (Dockerfile reference, HEALTHCHECK).
    for key, own, default in (("periodSeconds", "interval", "30s"), ("timeoutSeconds", "timeout", "30s")):
        given = check.get(own) or default
        probe[key] = whole_seconds(given)
        if seconds(given) != probe[key]:
            said.say(name, f"healthcheck.{own}", f"{given} became {probe[key]} s: Kubernetes counts whole seconds")
    probe["failureThreshold"] = max(1, int(check.get("retries") or 3))
    return {"readinessProbe": probe}


# --------------------------------------------------------------------------- resources


def resources_of(name: str, entry: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """Return limits and requests; without a request, Kubernetes asks for the limit.  Raises ValueError."""
    given = (entry.get("deploy") or {}).get("resources") or {}
    limits, reserved = given.get("limits") or {}, given.get("reservations") or {}
    limit: dict[str, str] = {}
    request: dict[str, str] = {}
    if _set(cores := entry.get("cpus") or limits.get("cpus")):
        limit["cpu"] = cpus(cores)
    elif _set(quota := entry.get("cpu_quota")) and float(str(quota)) > 0:
        limit["cpu"] = cpus(_microseconds(quota) / _microseconds(entry.get("cpu_period") or 100_000))
    if _set(size := entry.get("mem_limit") or limits.get("memory")):
        limit["memory"] = memory(size)
    if _set(cores := reserved.get("cpus")):
        request["cpu"] = cpus(cores)
    if _set(size := entry.get("mem_reservation") or reserved.get("memory")):
        request["memory"] = memory(size)
    if reserved.get("devices") or entry.get("gpus"):
        said.refuse(name, "gpus", "devices of a machine: ask for the resource of the cluster's device plug-in instead")
    if reserved.get("generic_resources"):
        said.refuse(name, "deploy.resources.reservations.generic_resources", "resources of a swarm")
    if "pids" in limits:
        said.say(name, "deploy.resources.limits.pids", "no counterpart in a pod: the kubelet limits processes")
    resources = {key: value for key, value in (("limits", limit), ("requests", request)) if value}
    return {"resources": resources} if resources else {}


def _microseconds(value: Any) -> float:
    text = str(value)
    return float(text) if text.isdigit() else seconds(text) * 1e6


def _set(value: Any) -> bool:
    return value is not None and str(value) not in ("", "0", "0.0")


# --------------------------------------------------------------------------- rights


def security_of(name: str, entry: Mapping[str, Any], said: Said) -> dict[str, Any]:
    """Return a container's security context: its user, capabilities, and what it may write."""
    context: dict[str, Any] = _user(name, entry, said)
    if entry.get("privileged") in (True, "true"):
        context["privileged"] = True
    capabilities = {
        side: [str(item).upper().removeprefix("CAP_") for item in members(entry.get(key))]
        for side, key in (("add", "cap_add"), ("drop", "cap_drop"))
        if entry.get(key)
    }
    if capabilities:
        context["capabilities"] = capabilities
    if entry.get("read_only") in (True, "true"):
        context["readOnlyRootFilesystem"] = True
    for option in members(entry.get("security_opt")):
        match str(option).replace("=", ":", 1).partition(":"):
            case ("no-new-privileges", _, "" | "true"):
                context["allowPrivilegeEscalation"] = False
            case ("no-new-privileges", _, "false"):
                pass  # as without it
            case ("seccomp", _, "unconfined"):
                context["seccompProfile"] = {"type": "Unconfined"}
            case _:
                said.refuse(name, f"security_opt: {option}", "no counterpart that is known here")
    return {"securityContext": context} if context else {}


def _user(name: str, entry: Mapping[str, Any], said: Said) -> dict[str, Any]:
    if entry.get("user") in (None, ""):
        return {}
    user, _, group = str(entry["user"]).partition(":")
    if not user.isdigit() or not (group.isdigit() or not group):
        said.refuse(
            name, "user", f"found {entry['user']!r}; a pod's user and group are numbers: write those of the image"
        )
        return {}
    # Docker takes the group of the image's user, or 0 where it has none; so does Kubernetes without runAsGroup.
    return {"runAsUser": int(user)} | ({"runAsGroup": int(group)} if group else {})
