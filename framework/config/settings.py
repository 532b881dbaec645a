"""Settings of the installation, from the environment."""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from framework.config.durations import seconds
from framework.errors import InputError

OTLP = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
SWARM_NAMED = "TAILOR_SWARM_"
_SWARM_NAME = re.compile(r"[a-z0-9_]{1,24}")
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention times [s], counted from the last change of a study; None: for ever.

    ``samples_s``: of traces and of each request's latency.  ``studies_s``: of whole studies.
    """

    samples_s: float | None = None
    studies_s: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings, each with its environment variable and default.

    ``home`` (TAILOR_HOME, ~/.tailor): the directory of database, artefacts and deployments.  ``spaces``
    (TAILOR_SEARCH_SPACES, none): more directories of service types, separated as in PATH.  ``database``
    (TAILOR_DATABASE, a SQLite file below ``home``): SQLAlchemy URL of the store.  ``applications``
    (TAILOR_APPLICATIONS, ./apps): directories whose applications the service may tune, separated as in PATH.
    ``allowed`` (TAILOR_ALLOW, none): entries "application:place", separated by commas; each allows something in
    a compose file that the allow-list refuses.  ``variables`` (TAILOR_VARIABLES, none): names of environment
    variables that compose files may see, separated by commas.  ``retention`` (TAILOR_RETENTION, everything for ever):
    such as ``samples=30d,studies=365d``.  ``otlp``: whether spans of Tailor's own work are sent to
    OTEL_EXPORTER_OTLP_ENDPOINT.  ``jaeger_agent`` (TAILOR_JAEGER_AGENT, none): host:port that gets these spans by
    UDP.  ``requests_per_s`` (TAILOR_REQUESTS_PER_S, 200): most requests of one caller that the service takes; 0 for
    no limit.  ``hosts`` (TAILOR_HOSTS, none): further names and addresses of the service, separated by commas; those
    of loopback and the one that it listens on always count, and requests for any other are refused.  ``proxies``
    (TAILOR_PROXIES, none): addresses and networks, separated by commas, of the reverse proxies whose X-Forwarded-For
    and X-Forwarded-Proto are believed.  ``swarm`` (TAILOR_SWARM, none): docker contexts or URLs of the engines of a
    swarm, separated by commas, on which ``--testbed swarm`` deploys.  ``swarms`` (TAILOR_SWARM_NAME, none): further
    swarms, on which ``--testbed swarm:name`` deploys.
    """

    home: Path
    spaces: tuple[Path, ...] = ()
    database: str = ""
    applications: tuple[Path, ...] = ()
    allowed: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    retention: Retention = field(default_factory=Retention)
    otlp: bool = False
    jaeger_agent: str = ""
    requests_per_s: float = 200.0
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    swarm: tuple[str, ...] = ()
    swarms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the settings.  Raises InputError for a value that cannot be used, or without a home directory."""
        given = os.environ if environment is None else environment
        try:
            home = Path(given.get("TAILOR_HOME") or "~/.tailor").expanduser().absolute()
        except RuntimeError:
            raise InputError("TAILOR_HOME: not set, and there is no home directory; set it to a directory") from None
        spaces, applications = (
            _directories(name, given.get(name, "")) for name in ("TAILOR_SEARCH_SPACES", "TAILOR_APPLICATIONS")
        )
        database = given.get("TAILOR_DATABASE") or f"sqlite:///{home / 'tailor.db'}"
        allowed = _parts(given.get("TAILOR_ALLOW", ""))
        retention = _retention(given.get("TAILOR_RETENTION", ""))
        return cls(
            home,
            spaces,
            database,
            applications or (Path("apps").absolute(),),
            allowed,
            _variables(given.get("TAILOR_VARIABLES", "")),
            retention,
            otlp=any(given.get(name) for name in OTLP),
            jaeger_agent=given.get("TAILOR_JAEGER_AGENT", ""),
            requests_per_s=_rate(given.get("TAILOR_REQUESTS_PER_S") or "200"),
            hosts=tuple(_host(part) for part in _parts(given.get("TAILOR_HOSTS", ""))),
            proxies=tuple(_proxy(part) for part in _parts(given.get("TAILOR_PROXIES", ""))),
            swarm=_parts(given.get("TAILOR_SWARM", "")),
            swarms=_swarms(given),
        )


def _swarms(given: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return name -> engines of the swarms that have a name."""
    swarms = {}
    for variable, text in sorted(given.items()):
        name = variable.removeprefix(SWARM_NAMED).lower()
        if not variable.startswith(SWARM_NAMED) or not (parts := _parts(text)):
            continue
        if not _SWARM_NAME.fullmatch(name):
            raise InputError(f"{variable}: allowed: letters, digits and _ after {SWARM_NAMED}, 24 at most")
        swarms[name] = parts
    return swarms


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def host_name(text: str) -> str:
    """Normalise a host's name or address: lower case, no brackets, no final dot.

    Raises ValueError for any other text (with a port, a scheme, a wildcard).
    """
    name = text.lower().removesuffix(".")
    bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        if not _HOST_NAME.fullmatch(name) or len(name) > 253 or name.rpartition(".")[2].isdecimal():
            raise ValueError(text) from None
        return name


def _host(text: str) -> str:
    try:
        return host_name(text)
    except ValueError:
        raise InputError(
            f"TAILOR_HOSTS: found {text!r}; allowed: names and addresses of hosts, without ports and wildcards"
        ) from None


def _proxy(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text))
    except ValueError as error:
        raise InputError(f"TAILOR_PROXIES: found {text!r} ({error}); allowed: addresses and networks") from None


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    if not 0 <= rate < math.inf:
        raise InputError(f"TAILOR_REQUESTS_PER_S: found {text!r}; allowed: a number, 0 for no limit")
    return rate


def _variables(text: str) -> tuple[str, ...]:
    names = _parts(text)
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name.startswith("TAILOR_"):
            raise InputError(f"TAILOR_VARIABLES: found {name!r}; allowed: names of variables, not of Tailor's own")
    return names


def _retention(text: str) -> Retention:
    times: dict[str, float] = {}
    for part in _parts(text):
        name, _, duration = part.partition("=")
        if name not in ("samples", "studies"):
            raise InputError(f"TAILOR_RETENTION: found {part!r}; allowed: samples=30d, studies=365d or both")
        times[f"{name}_s"] = seconds("TAILOR_RETENTION", duration)
    return Retention(**times)


def _directories(name: str, text: str) -> tuple[Path, ...]:
    directories = tuple(Path(part).expanduser().absolute() for part in text.split(os.pathsep) if part)
    for directory in directories:
        if not directory.is_dir():
            raise InputError(f"{name}: found {str(directory)!r}; allowed: existing directories")
    return directories
