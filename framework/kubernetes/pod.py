"""The workload of a service: a Deployment, or a Job where others wait for it to end, with its pod."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from framework.compose.allow_list import members, pairs
from framework.kubernetes.amounts import whole_seconds
from framework.kubernetes.container import command_of, image_of, probe_of, resources_of, security_of
from framework.kubernetes.names import is_label, literal
from framework.kubernetes.network import Port, host_aliases
from framework.kubernetes.said import Said
from framework.kubernetes.volumes import Volumes

# Kubernetes' documentation, "Using sysctls in a Kubernetes Cluster": those that need no leave of the kubelet (1.32).
SAFE_SYSCTLS = frozenset(
    {"kernel.shm_rmid_forced"}
    | {f"net.ipv4.{name}" for name in (
        "ip_local_port_range", "tcp_syncookies", "ping_group_range", "ip_unprivileged_port_start",
        "ip_local_reserved_ports", "tcp_keepalive_time", "tcp_fin_timeout", "tcp_keepalive_intvl",
        "tcp_keepalive_probes", "tcp_rmem", "tcp_wmem",
    )}
)  # fmt: skip
_DIGEST = "tailor/files"  # a pod does not see a changed ConfigMap under a subPath: with this it is replaced


def container(
    name: str,
    entry: Mapping[str, Any],
    variables: tuple[str, Mapping[str, str], Mapping[str, str]],
    ports: Sequence[Port],
    volumes: Volumes,
    said: Said,
) -> dict[str, Any]:
    """Return a service's container.  ``variables``: name of a Secret, its variables, and the others."""
    secret, secrets, plain = variables
    environment: list[dict[str, Any]] = [{"name": key, "value": literal(value)} for key, value in sorted(plain.items())]
    environment += [
        {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}} for key in sorted(secrets)
    ]
    return {
        **image_of(name, entry, said),
        **command_of(name, entry, said),
        **({"env": environment} if environment else {}),
        **({"ports": [{"containerPort": port.number, "protocol": port.protocol} for port in ports]} if ports else {}),
        **probe_of(name, entry, said),
        **resources_of(name, entry, said),
        **security_of(name, entry, said),
        **({"volumeMounts": volumes.mounts} if volumes.mounts else {}),
    }


def pod_spec(
    name: str, entry: Mapping[str, Any], body: Mapping[str, Any], volumes: Volumes, said: Said
) -> dict[str, Any]:
    """Return the specification of a service's pod, whose container is ``body``."""
    spec: dict[str, Any] = {"containers": [body]}
    # Else each pod gets variables such as REDIS_PORT=tcp://... for every Service, which servers read as their own.
    spec["enableServiceLinks"] = False
    if volumes.volumes:
        spec["volumes"] = volumes.volumes
    if entry.get("hostname"):
        hostname = str(entry["hostname"])
        if is_label(hostname):
            spec["hostname"] = hostname
        else:
            said.say(name, "hostname", f"{hostname} is no name of a pod: it has its own")
    if aliases := host_aliases(name, entry, said):
        spec["hostAliases"] = aliases
    resolver = {
        own: [str(item) for item in members(entry.get(key))]
        for own, key in (("nameservers", "dns"), ("searches", "dns_search"))
        if entry.get(key)
    }
    options = [dict(zip(("name", "value"), str(o).split(":", 1), strict=False)) for o in members(entry.get("dns_opt"))]
    if resolver or options:
        spec["dnsConfig"] = {**resolver, **({"options": options} if options else {})}
    if entry.get("stop_grace_period"):
        spec["terminationGracePeriodSeconds"] = whole_seconds(entry["stop_grace_period"])
    if entry.get("platform"):
        system, _, architecture = str(entry["platform"]).partition("/")
        nodes = {"os": system, "arch": architecture.partition("/")[0]}
        spec["nodeSelector"] = {f"kubernetes.io/{key}": value for key, value in nodes.items() if value}
    if context := _pod_security(name, entry, volumes, said):
        spec["securityContext"] = context
    return spec


def _pod_security(name: str, entry: Mapping[str, Any], volumes: Volumes, said: Said) -> dict[str, Any]:
    context: dict[str, Any] = {}
    given = [(str(key).strip(), str(value).strip()) for key, value in pairs(entry.get("sysctls"))]
    if given:
        context["sysctls"] = [{"name": key, "value": value} for key, value in sorted(given)]
        for key in sorted({key for key, _ in given} - SAFE_SYSCTLS):
            said.say(name, f"sysctls.{key}", "pods with it start only on nodes whose kubelet allows it "
                     f"(--allowed-unsafe-sysctls={key})")  # fmt: skip
    groups = members(entry.get("group_add"))
    if groups and all(str(group).isdigit() for group in groups):
        context["supplementalGroups"] = [int(group) for group in groups]
    elif groups:
        said.refuse(name, "group_add", f"found {groups}; a pod's groups are numbers")
    group = str(entry.get("user") or "").partition(":")[2]
    if group.isdigit() and volumes.claims:
        context["fsGroup"] = int(group)  # else the disk is root's, and its user cannot write
    return context


# --------------------------------------------------------------------------- workloads


def job(name: str, labels: Mapping[str, str], spec: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Job of a service that ends."""
    policy, _, most = str(entry.get("restart") or "no").partition(":")
    again = policy not in ("no", "false", "False")
    body: dict[str, Any] = {
        "backoffLimit": int(most) if most.isdigit() else 6 if again else 0,
        "template": {"metadata": {"labels": dict(labels)},
                     "spec": {**spec, "restartPolicy": "OnFailure" if again else "Never"}},
    }  # fmt: skip
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def deployment(
    name: str,
    labels: Mapping[str, str],
    spec: Mapping[str, Any],
    replicas: int,
    volumes: Volumes,
    secrets: Sequence[Any],
) -> dict[str, Any]:
    """Return the Deployment of a service.  ``secrets``: further objects whose change replaces its pods."""
    metadata: dict[str, Any] = {"labels": dict(labels)}
    files = [*volumes.objects, *secrets]
    if files:
        text = json.dumps(files, sort_keys=True)
        metadata["annotations"] = {_DIGEST: hashlib.sha256(text.encode()).hexdigest()[:16]}
    body: dict[str, Any] = {"replicas": replicas, "selector": {"matchLabels": dict(labels)}}
    if volumes.claims:  # two pods must not write into one volume while they change over
        body["strategy"] = {"type": "Recreate"}
    body["template"] = {"metadata": metadata, "spec": dict(spec)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


__all__ = ["SAFE_SYSCTLS", "container", "deployment", "job", "pod_spec"]
