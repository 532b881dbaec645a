"""Checks of Kubernetes manifests: by the API's own schemas, and for what these cannot say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import kubernetes_validate

from framework.kubernetes import Manifests

VERSIONS = ("1.29", "1.37")  # the oldest that knows all that is written, and the newest whose schemas are here
_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def problems(objects: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return all that an API server would refuse, or a kubelet wait for in vain; empty where all is well."""
    listed = [dict(item) for item in objects]
    found = [text for item in listed for text in schema_problems(item)]
    return found or [*_names(listed), *(text for item in listed for text in _pods(item, listed))]


def schema_problems(item: dict[str, Any]) -> Iterator[str]:
    """Yield what the schemas of the API say against an object."""
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{version}: {'.'.join(map(str, error.path))}: {error.message}"


def _names(objects: list[dict[str, Any]]) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for item in objects:
        kind, name = item["kind"], item["metadata"]["name"]
        if not _LABEL.fullmatch(name):
            yield f"{kind} {name}: no label"
        if (kind, name) in seen:
            yield f"{kind} {name}: twice"
        seen.add((kind, name))
        keys = [*(item.get("data") or {}), *(item.get("binaryData") or {}), *(item.get("stringData") or {})]
        for key in keys:
            if not _KEY.fullmatch(key) or key in (".", ".."):
                yield f"{kind} {name}: key {key!r}"


def _pods(item: dict[str, Any], objects: list[dict[str, Any]]) -> Iterator[str]:
    if "template" not in item["spec"] if "spec" in item else True:
        return
    here, spec = f"{item['kind']} {item['metadata']['name']}", item["spec"]["template"]["spec"]
    labels = item["spec"]["template"]["metadata"]["labels"]
    selected = item["spec"].get("selector", {}).get("matchLabels", labels)
    if not selected.items() <= labels.items():
        yield f"{here}: its selector does not select its pods"
    named = {(other["kind"], other["metadata"]["name"]): other for other in objects}
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for volume in volumes.values():
        yield from _volume(here, volume, named)
    for container in spec["containers"]:
        mounts = container.get("volumeMounts", ())
        paths = [mount["mountPath"] for mount in mounts]
        yield from (f"{here}: {path} is mounted twice" for path in set(paths) if paths.count(path) > 1)
        yield from (f"{here}: no volume {m['name']}" for m in mounts if m["name"] not in volumes)
        names = [variable["name"] for variable in container.get("env", ())]
        yield from (f"{here}: {name} is set twice" for name in set(names) if names.count(name) > 1)
        for variable in container.get("env", ()):
            wanted = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if wanted and wanted["key"] not in named.get(("Secret", wanted["name"]), {}).get("stringData", {}):
                yield f"{here}: no key {wanted['key']} in the Secret {wanted['name']}"
    services = [other for other in objects if other["kind"] == "Service"]
    if not any(service["spec"]["selector"].items() <= labels.items() for service in services):
        yield f"{here}: no Service leads to it"


def _volume(here: str, volume: Mapping[str, Any], named: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[str]:
    for kind, key, name in (("ConfigMap", "configMap", "name"), ("Secret", "secret", "secretName")):
        if key in volume:
            source = named.get((kind, volume[key][name]))
            if source is None:
                yield f"{here}: no {kind} {volume[key][name]}"
                continue
            keys = {*source.get("data", {}), *source.get("binaryData", {}), *source.get("stringData", {})}
            yield from (f"{here}: no key {i['key']}" for i in volume[key].get("items", ()) if i["key"] not in keys)
    claim = volume.get("persistentVolumeClaim", {}).get("claimName")
    if claim and ("PersistentVolumeClaim", claim) not in named:
        yield f"{here}: no claim {claim}"


def objects(manifests: Manifests) -> list[Mapping[str, Any]]:
    """Return all objects of all files."""
    return [item for items in manifests.files.values() for item in items]
