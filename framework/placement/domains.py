"""Domains that services are placed on: the CPU sets of one machine, or the hosts of a testbed that has several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from framework.bench import TestbedKind
from framework.compose.placed import ALL, CPUSET, HOST
from framework.errors import FieldError, InputError
from framework.model import Application
from framework.model.cpus import read_cpus, write_cpus
from framework.model.links import longer_between_ms
from framework.model.topology import Topology

AUTO, HOSTS = "auto", "hosts"
"""Domains that fit the testbed, and its hosts, as a request says them."""

CPU_SETS = "2"  # of a machine, unless a request says otherwise
ALLOWED = "a number, or sets without a common CPU such as 0-3/4-7"


@dataclass(frozen=True, slots=True)
class Domains:
    """The places that services are assigned to.

    ``kind``: the parameter of a service that says its place, ``cpuset`` or ``host``.  ``cores``: domain -> its number
    of CPUs.  ``memory_mib``: domain -> its own memory [MiB]; empty where domains share memory or a size is unknown.
    ``stays``: service -> the domain that it is on and cannot leave.  ``at``: service -> its host by default.
    ``between_ms``: how much longer a call takes between two domains than within one [ms]; 0 where that is not known.
    ``entry``: the service that clients call.
    """

    kind: str
    cores: Mapping[str, float]
    memory_mib: Mapping[str, float] = field(default_factory=dict)
    stays: Mapping[str, str] = field(default_factory=dict)
    at: Mapping[str, str] = field(default_factory=dict)
    between_ms: float = 0.0
    entry: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.cores)

    def parameter(self, service: str) -> str:
        """Return the name of the parameter that says where a service is."""
        return f"{service}.{self.kind}"

    def default(self, service: str) -> str:
        """Return where a service is by default: on all CPUs, or on the host that application.yaml gives it."""
        return ALL if self.kind == CPUSET else self.at[service]

    def choices(self) -> tuple[str, ...]:
        """Return the values of each service's parameter."""
        return (ALL, *self.names) if self.kind == CPUSET else self.names


def cpu_sets(sets: Sequence[str], memory_mib: Mapping[str, float] | None = None) -> Domains:
    """Return domains of CPU sets.  ``memory_mib``: of each, where it has memory of its own."""
    return Domains(CPUSET, {cpus: float(len(read_cpus(cpus))) for cpus in sets}, memory_mib or {})


def domains_of(asked: str, topology: Topology) -> tuple[str, ...]:
    """Parse the CPU sets to place on: a number of them, or the sets themselves ("0-3/4-7").  Raises InputError."""
    if asked == HOSTS:
        raise FieldError("domains", asked, f"{ALLOWED}; {HOSTS} only on a testbed of several hosts, such as swarm")
    if asked.isascii() and asked.isdigit():
        return tuple(write_cpus(cpus) for cpus in topology.domains(int(asked)).values())
    sets = [read_cpus(part) for part in asked.split("/")]
    taken: set[int] = set()
    for cpus in sets:
        if not cpus or taken & set(cpus):
            raise FieldError("domains", asked, ALLOWED)
        topology.only(cpus)  # raises where the machine lacks a CPU
        taken |= set(cpus)
    return tuple(write_cpus(cpus) for cpus in sets)


def own_memory_mib(domains: Sequence[str], topology: Topology) -> dict[str, float]:
    """Return domain -> its own memory; empty where domains share memory, or the size of one is not known."""
    sizes = {domain: topology.own_memory_mib(read_cpus(domain)) for domain in domains}
    known = {domain: size for domain, size in sizes.items() if size is not None}
    return known if len(known) == len(domains) else {}


def domains_on(kind: TestbedKind, application: Application, asked: str, with_links: bool = False) -> Domains:
    """Return what services are placed on: hosts on a testbed that has several, else CPU sets.  Raises InputError.

    ``with_links``: with what calls between hosts cost, which the testbed measures once.
    """
    if kind.hosts is None:
        return of_machine(CPU_SETS if asked == AUTO else asked, kind.topology(application))
    if asked not in (AUTO, HOSTS):
        raise FieldError("domains", asked, f"{HOSTS}: testbed {kind.name} has several")
    domains = of_hosts(application, kind.hosts(application))
    if not with_links or kind.links is None:
        return domains
    return replace(domains, between_ms=longer_between_ms(kind.links(application)))


def of_machine(asked: str, topology: Topology) -> Domains:
    """Return the CPU sets of a machine that a request asks for.  Raises InputError."""
    sets = domains_of(asked, topology)
    return cpu_sets(sets, own_memory_mib(sets, topology))


def of_hosts(application: Application, sizes: Mapping[str, tuple[float, float]]) -> Domains:
    """Return the hosts of an application as domains.  ``sizes``: host -> its cores and its memory [MiB].

    A service with a volume stays on its host, where its data are.  Raises InputError for a host that is not there.
    """
    missing = [host for host in application.hosts if host not in sizes]
    if missing:
        raise InputError(f"{application.name}: no node is host {', '.join(missing)}; there are: {', '.join(sizes)}")
    at = {service.name: service.host for service in application.services}
    bodies = application.compose["services"]
    with_data = {name for name in at if any(_is_volume(mount) for mount in bodies[name].get("volumes") or [])}
    return Domains(
        HOST,
        {host: sizes[host][0] for host in application.hosts},
        {host: sizes[host][1] for host in application.hosts},
        {name: host for name, host in at.items() if name in with_data},
        at,
        entry=application.entry,
    )


def _is_volume(mount: object) -> bool:
    """Return whether a mount of a compose file is a volume, named or not; files of the host are copied to any node."""
    if isinstance(mount, Mapping):
        return str(mount.get("type", "volume")) == "volume"
    source, colon, _ = str(mount).partition(":")
    return not colon or not source.startswith((".", "/", "~"))
