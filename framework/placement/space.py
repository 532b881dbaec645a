"""Placement in a search space: for each service a parameter for the CPUs that it may use, by default all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from framework.compose.placed import ALL, CPUSET
from framework.config.reading import RECORD_BYTES, read_text
from framework.errors import FieldError, FieldName, InputError, UnknownName
from framework.model import Application
from framework.model.cpus import read_cpus, write_cpus
from framework.model.topology import Topology
from framework.placement.profile import Profile, read_profile
from framework.placement.slowdowns import attributes
from optimizer.errors import SearchExhausted
from optimizer.models.tied_parameters import ALONE
from optimizer.placement.assignment import APART, ONLY, assignment_of
from optimizer.registry import load
from optimizer.space import Capacity, Configuration, Parameter, SearchSpace

MOST_DRAWS = 10_000  # of random placements, of which few may fit
FULL = 0.85  # fraction of the machine that scaled needs fill: a full machine leaves no choice


def load_profile(path: Path, application: Application) -> Profile:
    """Read an application's profile.  Raises InputError, also where the profile is of another application."""
    profile = read_profile(read_text(path, RECORD_BYTES), str(path))
    if profile.about.application != application.name:
        raise InputError(FieldName("profile"), f": {path} is of {profile.about.application}, not of {application.name}")
    return profile


def domains_of(asked: str, topology: Topology) -> tuple[str, ...]:
    """Parse the CPU sets to place on: a number of them, or the sets themselves ("0-3/4-7").  Raises InputError."""
    if asked.isascii() and asked.isdigit():
        return tuple(write_cpus(cpus) for cpus in topology.domains(int(asked)).values())
    sets = [read_cpus(part) for part in asked.split("/")]
    taken: set[int] = set()
    for cpus in sets:
        if not cpus or taken & set(cpus):
            raise FieldError("domains", asked, "a number, or sets without a common CPU such as 0-3/4-7")
        topology.only(cpus)  # raises where the machine lacks a CPU
        taken |= set(cpus)
    return tuple(write_cpus(cpus) for cpus in sets)


def parameter_of(service: str, domains: Sequence[str], attributes: Mapping[str, float] | None = None) -> Parameter:
    """Return the placement parameter of a service: a domain, or all CPUs (which placement solvers never choose)."""
    return Parameter(
        f"{service}.{CPUSET}",
        "categorical",
        ALL,
        choices=(ALL, *domains),
        group=service,
        attributes={ALONE: 1.0, **{f"{ONLY}{domain}": 1.0 for domain in domains}, **(attributes or {})},
    )


def own_memory_mib(domains: Sequence[str], topology: Topology) -> dict[str, float]:
    """Return domain -> its own memory; empty where domains share memory, or the size of one is not known."""
    sizes = {domain: topology.own_memory_mib(read_cpus(domain)) for domain in domains}
    known = {domain: size for domain, size in sizes.items() if size is not None}
    return known if len(known) == len(domains) else {}


def with_placement(
    space: SearchSpace, domains: Sequence[str], profile: Profile | None, memory_mib: Mapping[str, float]
) -> SearchSpace:
    """Add to a space the placement of every service in it, before the service's other parameters.

    ``memory_mib``: of each domain, where it has memory of its own.
    """
    known = attributes(profile) if profile else {}
    parameters: list[Parameter] = []
    groups: dict[str, list[Parameter]] = {}
    for parameter in space.tuned:
        groups.setdefault(parameter.group, []).append(parameter)
    for service, own in groups.items():
        parameters += [parameter_of(service, domains, known.get(service)), *own]
    limits = capacities(list(groups), domains, profile, memory_mib)
    return SearchSpace(parameters, [*space.constraints, *limits], space.dependents.derived)


def placement_alone(
    application: Application,
    domains: Sequence[str],
    profile: Profile | None,
    memory_mib: Mapping[str, float],
    only: Sequence[str] = (),
) -> SearchSpace:
    """Return the space of the placements of all tuned services, or of those named.  Raises UnknownName, InputError.

    ``memory_mib``: of each domain, where it has memory of its own.
    """
    known = [service.name for service in application.services if service.tuned]
    for name in only:
        if name not in known:
            raise UnknownName("service", name, known)
    services = [name for name in known if not only or name in only]
    if not services:
        raise InputError(f"{application.name}: no service is tuned, so none can be placed")
    profiled = attributes(profile) if profile else {}
    return SearchSpace(
        (parameter_of(name, domains, profiled.get(name)) for name in services),
        capacities(services, domains, profile, memory_mib),
    )


def with_rules(space: SearchSpace, domains: Sequence[str], pins: Sequence[str], apart: Sequence[str]) -> SearchSpace:
    """Add constraints for placement solvers.  ``pins``: "service=CPUs".  ``apart``: "service:service".

    Raises InputError on another form of text, UnknownName on a service that is not placed or an unknown domain.
    """
    placed = [parameter.group for parameter in space.parameters if parameter.name == f"{parameter.group}.{CPUSET}"]
    wished: dict[str, dict[str, float]] = {}
    for text in pins:
        service, domain = _two("pin", text, "=", "nginx=0-3")
        _known("service", service, placed)
        _known("domain", domain, domains)
        wished.setdefault(service, {}).update({f"{ONLY}{choice}": float(choice == domain) for choice in domains})
    for text in apart:
        service, other = _two("apart", text, ":", "nginx:user-db")
        for name in (service, other):
            _known("service", name, placed)
        wished.setdefault(service, {})[f"{APART}{other}"] = 1.0
    parameters = [
        replace(parameter, attributes={**parameter.attributes, **wished[parameter.group]})
        if parameter.group in wished and parameter.name == f"{parameter.group}.{CPUSET}"
        else parameter
        for parameter in space.tuned
    ]
    return SearchSpace(parameters, space.constraints, space.dependents.derived)


def _two(field: str, text: str, separator: str, example: str) -> tuple[str, str]:
    first, _, second = text.partition(separator)
    if not (first and second):
        raise FieldError(field, text, f"such as {example}")
    return first, second


def _known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UnknownName(what, name, known)


def capacities(
    services: Sequence[str], domains: Sequence[str], profile: Profile | None, memory_mib: Mapping[str, float]
) -> list[Capacity]:
    """Return the capacities of domains: CPUs for peak CPU needs, and memory where a domain has its own.

    Where the sum of the needs exceeds ``FULL`` of all domains, they are scaled down to it, as on a machine that is
    smaller than the application (Sfakiotakis 2023 scales them to the capacity).
    """
    if profile is None:
        return []
    peaks = {f"{name}.{CPUSET}": profile.about.peaks.get(name, 0.0) for name in services}
    sizes = {domain: float(len(read_cpus(domain))) for domain in domains}
    room, need = FULL * sum(sizes.values()), sum(peaks.values())
    scale = min(1.0, room / need) if need > 0 else 1.0
    weights = {name: scale * peak for name, peak in peaks.items()}
    memory = {f"{name}.{CPUSET}": profile.about.memory_mib.get(name, 0.0) for name in services}
    return [
        *(Capacity(weights, domain, size, "peak CPU need") for domain, size in sizes.items()),
        *(Capacity(memory, domain, mib, "memory in MiB") for domain, mib in memory_mib.items() if any(memory.values())),
    ]


def baselines(space: SearchSpace, seed: int, count: int = 2) -> Mapping[str, Configuration]:
    """Return placements to compare with, by name: the load spread evenly, and ``count`` random ones that fit.

    Fewer, or none, where no more fit.
    """
    problem = assignment_of(space)
    placements: dict[str, Configuration] = {}
    try:
        [spread] = load("placement-spread")(space, seed=seed).ask()
        placements["spread"] = spread.configuration
    except SearchExhausted:
        pass
    rng = np.random.default_rng(seed)
    for _ in range(MOST_DRAWS):
        places = np.array([rng.choice(np.flatnonzero(row)) for row in problem.allowed], dtype=np.int64)
        drawn = problem.configuration(places)
        if problem.fits(places) and drawn not in placements.values():
            placements[f"random-{len(placements) + ('spread' not in placements)}"] = drawn
        if len(placements) >= count + ("spread" in placements):
            break
    return placements
