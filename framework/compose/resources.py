"""CPUs, memory, replicas, ulimits and sysctls, which compose gives a container, as parameters.

A value takes the place that the user's file has for it; compose refuses two places that differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.compose.amounts import SIZES
from framework.config.resource_names import memory_unit
from framework.model import Probe

Path = tuple[str, ...]
# The places of a resource in a compose entry; the first one is written where the file has none (every compose has it).
_PLACES: Mapping[str, tuple[Path, ...]] = {
    "cpus": (("cpus",), ("deploy", "resources", "limits", "cpus")),
    "memory": (("mem_limit",), ("deploy", "resources", "limits", "memory")),
    "replicas": (("scale",), ("deploy", "replicas")),
}


def resource_given(entry: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """Return the text of a resource in a compose entry, and where it stands; None where it has none."""
    kind, _, rest = name.partition(":")
    if kind == "ulimit":
        limit = _at(entry, ("ulimits", rest))
        value = limit.get("soft") if isinstance(limit, Mapping) else limit
        return (str(value), f"ulimits.{rest}") if value is not None else None
    if kind == "sysctl":
        value = _sysctls(entry).get(rest)
        return (value, f"sysctls.{rest}") if value is not None else None
    for path in _places(name):
        value = _at(entry, path)
        if value is not None and not (name in ("cpus", "memory") and str(value) in ("0", "0.0")):  # 0: no limit
            return str(value), ".".join(path)
    return None


def with_resource(entry: Mapping[str, Any], name: str, text: str) -> dict[str, Any]:
    """Return a compose entry with a resource; ``text``: its value, as compose reads it."""
    kind, _, rest = name.partition(":")
    if kind == "ulimit":
        limit = _at(entry, ("ulimits", rest))
        hard = limit.get("hard") if isinstance(limit, Mapping) else limit
        most = max(int(text), int(str(hard))) if str(hard).isdigit() else int(text)
        return _put(entry, ("ulimits", rest), {"soft": int(text), "hard": most})
    if kind == "sysctl":
        return {**entry, "sysctls": {**_sysctls(entry), rest: text}}
    value: Any = int(text) if name == "replicas" else text
    known = [path for path in _places(name) if _at(entry, path) is not None]
    for path in known or _places(name)[:1]:
        entry = _put(entry, path, value)
    return dict(entry)


def resource_probe(name: str, unit: str) -> Probe:
    """Return the probe that asks the engine for a resource; ``unit``: of memory."""
    multiply = 1 / SIZES[memory_unit(unit)] if name == "memory" else 1.0
    return Probe("engine", r"^(.+)$", path=name, multiply=multiply)


def _places(name: str) -> tuple[Path, ...]:
    return _PLACES.get(name, (tuple(name.split(".")),))


def _at(entry: Any, path: Path) -> Any:
    for key in path:
        entry = entry.get(key) if isinstance(entry, Mapping) else None
    return entry


def _put(entry: Any, path: Path, value: Any) -> dict[str, Any]:
    inner = dict(entry) if isinstance(entry, Mapping) else {}
    key, rest = path[0], path[1:]
    return {**inner, key: _put(inner.get(key), rest, value) if rest else value}


def _sysctls(entry: Mapping[str, Any]) -> dict[str, str]:
    given = entry.get("sysctls") or {}
    items = given.items() if isinstance(given, Mapping) else (str(item).partition("=")[::2] for item in given)
    return {str(name).strip(): str(value).strip() for name, value in items}
