"""Placement in a search space: for each service the CPUs that it may use, all of them by default."""

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
FULL = 0.85  # of the machine: a full one leaves no choice


def load_profile(path: Path, application: Application) -> Profile:
    """An application's profile from its file.  Raises InputError, also where it is of another application."""
    found = read_profile(read_text(path, RECORD_BYTES), str(path))
    if found.about.application != application.name:
        raise InputError(FieldName("profile"), f": {path} is of {found.about.application}, not of {application.name}")
    return found


def domains_of(asked: str, topology: Topology) -> tuple[str, ...]:
    """The CPU sets that somebody asks for: a number of them, or the sets themselves ("0-3/4-7").  Raises InputError."""
    if asked.isascii() and asked.isdigit():
        return tuple(write_cpus(cpus) for cpus in topology.domains(int(asked)).values())
    sets = [read_cpus(part) for part in asked.split("/")]
    taken: set[int] = set()
    for cpus in sets:
        if not cpus or taken & set(cpus):
            raise FieldError("domains", asked, "a number, or sets without a common CPU such as 0-3/4-7")
        topology.only(cpus)  # are they there?
        taken |= set(cpus)
    return tuple(write_cpus(cpus) for cpus in sets)


def parameter_of(service: str, domains: Sequence[str], attributes: Mapping[str, float] | None = None) -> Parameter:
    """Where a service runs.  A solver of placements keeps to the domains; others may leave a service on all CPUs."""
    return Parameter(
        f"{service}.{CPUSET}",
        "categorical",
        ALL,
        choices=(ALL, *domains),
        group=service,
        attributes={ALONE: 1.0, **{f"{ONLY}{one}": 1.0 for one in domains}, **(attributes or {})},
    )


def own_memory_mib(domains: Sequence[str], topology: Topology) -> dict[str, float]:
    """Domain -> the memory that is next to it alone; empty where domains share memory, or nobody says how much."""
    found = {domain: topology.own_memory_mib(read_cpus(domain)) for domain in domains}
    sizes = {domain: size for domain, size in found.items() if size is not None}
    return sizes if len(sizes) == len(domains) else {}


def with_placement(
    space: SearchSpace, domains: Sequence[str], profile: Profile | None, memory_mib: Mapping[str, float]
) -> SearchSpace:
    """A space with the placement of every service that it tunes something of, before its other parameters.

    ``memory_mib``: of each domain, where it has memory of its own.
    """
    known = attributes(profile) if profile else {}
    parameters: list[Parameter] = []
    for service, names in space.groups.items():
        parameters += [parameter_of(service, domains, known.get(service)), *(space[name] for name in names)]
    return SearchSpace(parameters, [*space.constraints, *capacities(list(space.groups), domains, profile, memory_mib)])


def placement_alone(
    application: Application,
    domains: Sequence[str],
    profile: Profile | None,
    memory_mib: Mapping[str, float],
    only: Sequence[str] = (),
) -> SearchSpace:
    """The space of where each service runs that is tuned, or of those named.  Raises UnknownName, InputError.

    ``memory_mib``: of each domain, where it has memory of its own.
    """
    known = [one.name for one in application.services if one.tuned]
    for name in only:
        if name not in known:
            raise UnknownName("service", name, known)
    services = [name for name in known if not only or name in only]
    if not services:
        raise InputError(f"{application.name}: no service is tuned, so none can be placed")
    about = attributes(profile) if profile else {}
    return SearchSpace(
        (parameter_of(name, domains, about.get(name)) for name in services),
        capacities(services, domains, profile, memory_mib),
    )


def with_wishes(space: SearchSpace, domains: Sequence[str], pins: Sequence[str], apart: Sequence[str]) -> SearchSpace:
    """What solvers of placements have to keep to.  ``pins``: "service=CPUs".  ``apart``: "service:service".

    Raises InputError on what is not written so, UnknownName on a service that is not placed or another domain.
    """
    placed = [one.group for one in space.parameters if one.name == f"{one.group}.{CPUSET}"]
    wished: dict[str, dict[str, float]] = {}
    for text in pins:
        service, domain = _two("pin", text, "=", "nginx=0-3")
        _known("service", service, placed)
        _known("domain", domain, domains)
        wished.setdefault(service, {}).update({f"{ONLY}{one}": float(one == domain) for one in domains})
    for text in apart:
        one, other = _two("apart", text, ":", "nginx:user-db")
        for name in (one, other):
            _known("service", name, placed)
        wished.setdefault(one, {})[f"{APART}{other}"] = 1.0
    parameters = [
        replace(one, attributes={**one.attributes, **wished[one.group]})
        if one.group in wished and one.name == f"{one.group}.{CPUSET}"
        else one
        for one in space.parameters
    ]
    return SearchSpace(parameters, space.constraints)


def _two(field: str, text: str, between: str, example: str) -> tuple[str, str]:
    first, found, second = text.partition(between)
    if not (first and found and second):
        raise FieldError(field, text, f"such as {example}")
    return first, second


def _known(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise UnknownName(what, name, known)


def capacities(
    services: Sequence[str], domains: Sequence[str], profile: Profile | None, memory_mib: Mapping[str, float]
) -> list[Capacity]:
    """What fits into a domain: peak CPU needs up to its CPUs, and memory where it has some of its own.

    Where all together need more than there is, as on a machine that is smaller than the application, the needs are
    scaled so that they fill it to ``FULL`` (Sfakiotakis 2023 scales them to the capacity).
    """
    if profile is None:
        return []
    peaks = {f"{name}.{CPUSET}": profile.about.peaks.get(name, 0.0) for name in services}
    sizes = {domain: float(len(read_cpus(domain))) for domain in domains}
    room, need = FULL * sum(sizes.values()), sum(peaks.values())
    scale = min(1.0, room / need) if need > 0 else 1.0
    weights = {name: scale * peak for name, peak in peaks.items()}
    held = {f"{name}.{CPUSET}": profile.about.memory_mib.get(name, 0.0) for name in services}
    return [
        *(Capacity(weights, domain, size, "peak CPU need") for domain, size in sizes.items()),
        *(Capacity(held, domain, size, "memory in MiB") for domain, size in memory_mib.items() if any(held.values())),
    ]


def baselines(space: SearchSpace, seed: int, count: int = 2) -> Mapping[str, Configuration]:
    """Placements to compare with: the load spread evenly, and random ones that fit.  None where none was found."""
    problem = assignment_of(space)
    found: dict[str, Configuration] = {}
    try:
        [spread] = load("placement-spread")(space, seed=seed).ask()
        found["spread"] = spread.configuration
    except SearchExhausted:
        pass
    rng = np.random.default_rng(seed)
    for _ in range(MOST_DRAWS):
        places = np.array([rng.choice(np.flatnonzero(row)) for row in problem.allowed], dtype=np.int64)
        drawn = problem.configuration(places)
        if problem.fits(places) and drawn not in found.values():
            found[f"random-{len(found) + ('spread' not in found)}"] = drawn
        if len(found) >= count + ("spread" in found):
            break
    return found
