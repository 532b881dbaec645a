"""Keys of a compose service for which Kubernetes has no counterpart: each is said, or refused, with its reason.

A key that is neither carried over nor in these tables is refused, so that nothing is left out in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.kubernetes.said import Said

CARRIED = frozenset({
    "cap_add", "cap_drop", "command", "configs", "container_name", "cpu_period", "cpu_quota", "cpus", "deploy", "dns",
    "dns_opt", "dns_search", "entrypoint", "env_file", "environment", "expose", "extra_hosts", "gpus", "group_add",
    "healthcheck", "hostname", "image", "mem_limit", "mem_reservation", "networks", "platform", "ports", "privileged",
    "profiles", "pull_policy", "read_only", "restart", "scale", "secrets", "security_opt", "shm_size", "stdin_open",
    "stop_grace_period", "sysctls", "tmpfs", "tty", "user", "volumes", "working_dir", "build", "links", "depends_on",
})  # fmt: skip
"""Keys that other parts of this room write, or say something about."""

# What does not change what a container does.
WITHOUT_EFFECT = frozenset({"annotations", "attach", "develop", "logging"})

SAID: Mapping[str, str] = {
    "blkio_config": "shares of a disk: no counterpart in a pod",
    "cgroup_parent": "the kubelet chooses the control group",
    "cpu_count": "of Windows only",
    "cpu_percent": "of Windows only",
    "cpu_rt_period": "no counterpart in a pod",
    "cpu_rt_runtime": "no counterpart in a pod",
    "cpu_shares": "a weight against other containers; Kubernetes makes it of the request of CPU",
    "cpuset": "a pod cannot choose its CPUs; the kubelet's static CPU manager gives whole ones of its own choice to "
    "pods whose requests are equal to their limits",
    "domainname": "pods have the cluster's domain",
    "init": "no init process: a program that leaves children behind has to reap them itself",
    "label_file": "labels of containers are not carried over",
    "labels": "labels of containers are not carried over: a proxy or an updater that reads them finds nothing",
    "mac_address": "the cluster's network gives addresses",
    "mem_swappiness": "the node's",
    "memswap_limit": "the node's",
    "oom_kill_disable": "no counterpart in a pod",
    "oom_score_adj": "Kubernetes sets it by requests and limits",
    "pids_limit": "no counterpart in a pod: the kubelet limits processes",
    "post_start": "run it yourself once the service is ready",
    "pre_stop": "run it yourself before the service stops",
    "stop_signal": "the image's own stop signal, or SIGTERM",
    "ulimits": "no counterpart in a pod: containers have the limits that the node's container runtime gives",
    "use_api_socket": "the engine's socket",
}
"""Keys that only change how well a service runs, or how it looks -> the reason."""

REFUSED: Mapping[str, str] = {
    "cgroup": "the machine's control groups",
    "credential_spec": "of Windows only",
    "device_cgroup_rules": "devices of a machine",
    "devices": "devices of a machine",
    "external_links": "containers outside of the application",
    "ipc": "memory that it shares with others",
    "isolation": "of Windows only",
    "models": "a model that compose provides",
    "network_mode": "the network of the machine, or of another container",
    "pid": "processes of the machine, or of another container",
    "provider": "something else than a container provides it",
    "runtime": "a runtime of the machine: a RuntimeClass of the cluster has to be chosen",
    "storage_opt": "options of the machine's storage",
    "userns_mode": "the machine's user namespaces",
    "uts": "the machine's host name",
    "volumes_from": "the volumes of another container: mount them by their names",
}
"""Keys without which a service does something else -> the reason."""
# Values of refused keys that are the default.
_DEFAULTS = {"ipc": ("private", "shareable"), "network_mode": ("bridge", "default"), "cgroup": ("private",)}


def unmatched(name: str, entry: Mapping[str, Any], said: Said) -> None:
    """Say what of a service has no counterpart."""
    for key, value in entry.items():
        if value in (None, "", [], {}, False) or key in CARRIED or key in WITHOUT_EFFECT or key.startswith("x-"):
            continue
        if key in SAID:
            listed = f" ({', '.join(map(str, value))})" if key in ("ulimits", "labels") else ""
            said.say(name, key, SAID[key] + listed)
        elif str(value) not in _DEFAULTS.get(key, ()):
            said.refuse(name, key, REFUSED.get(key, "not known here"))
    deploy = entry.get("deploy") or {}
    if deploy.get("mode") not in (None, "replicated"):
        said.refuse(name, "deploy.mode", f"{deploy['mode']}: write a DaemonSet or a Job for it")
    for key in sorted(deploy.keys() - {"mode", "replicas", "resources"}):
        said.say(name, f"deploy.{key}", "of a swarm: not carried over")
    for link in entry.get("links") or ():
        service, _, alias = str(link).partition(":")
        if alias and alias != service:
            said.refuse(name, f"links: {link}", "a name that only this service knows: give it as an alias of a network")
    waits = entry.get("depends_on")
    if waits:
        said.say(name, "depends_on", f"Kubernetes starts everything at once: where it does not itself wait for "
                 f"{', '.join(waits)}, it fails and is started again until they are there")  # fmt: skip
