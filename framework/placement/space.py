"""Placement in a search space: for each service a parameter for the CPUs that it may use, or for its host."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from framework.config.reading import RECORD_BYTES, read_text
from framework.errors import FieldError, FieldName, InputError, UnknownName
from framework.model import Application
from framework.placement.communication import costs_of_calls
from framework.placement.domains import Domains
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


def parameter_of(service: str, domains: Domains, attributes: Mapping[str, float] | None = None) -> Parameter:
    """Return the placement parameter of a service: a host, or a CPU set or all CPUs (which solvers never choose)."""
    return Parameter(
        domains.parameter(service),
        "categorical",
        domains.default(service),
        choices=domains.choices(),
        group=service,
        attributes={ALONE: 1.0, **{f"{ONLY}{domain}": 1.0 for domain in domains.names}, **(attributes or {})},
    )


def with_placement(space: SearchSpace, domains: Domains, profile: Profile | None) -> SearchSpace:
    """Add to a space the placement of every service in it that can move, before the service's other parameters."""
    groups: dict[str, list[Parameter]] = {}
    for parameter in space.tuned:
        groups.setdefault(parameter.group, []).append(parameter)
    movable = [name for name in groups if name not in domains.stays]
    known = _known_of(profile, domains, movable)
    parameters: list[Parameter] = []
    for service, own in groups.items():
        place = [] if service in domains.stays else [parameter_of(service, domains, known.get(service))]
        parameters += [*place, *own]
    limits = capacities(movable, domains, profile)
    return SearchSpace(parameters, [*space.constraints, *limits], space.dependents.derived)


def placement_alone(
    application: Application, domains: Domains, profile: Profile | None, only: Sequence[str] = ()
) -> SearchSpace:
    """Return the space of the placements of all tuned services that can move, or of those named.

    Raises UnknownName, InputError.
    """
    known = [service.name for service in application.services if service.tuned]
    for name in only:
        if name not in known:
            raise UnknownName("service", name, known)
    services = [name for name in known if (not only or name in only) and name not in domains.stays]
    if not services:
        why = "each tuned one has a volume" if domains.stays else "none is tuned"
        raise InputError(f"{application.name}: no service can be placed: {why}")
    profiled = _known_of(profile, domains, services)
    return SearchSpace(
        (parameter_of(name, domains, profiled.get(name)) for name in services), capacities(services, domains, profile)
    )


def _known_of(profile: Profile | None, domains: Domains, placed: Collection[str]) -> Mapping[str, Mapping[str, float]]:
    """Return service -> what solvers know of it by a profile: interference, needs, and what its calls cost."""
    alone, calls = attributes(profile) if profile else {}, costs_of_calls(profile, domains, placed)
    return {service: {**alone.get(service, {}), **calls.get(service, {})} for service in placed}


def with_rules(space: SearchSpace, domains: Domains, pins: Sequence[str], apart: Sequence[str]) -> SearchSpace:
    """Add constraints for placement solvers.  ``pins``: "service=domain".  ``apart``: "service:service".

    Raises InputError on another form of text, UnknownName on a service that is not placed or an unknown domain.
    """
    placed = [parameter.group for parameter in space.parameters if parameter.name == domains.parameter(parameter.group)]
    wished: dict[str, dict[str, float]] = {}
    for text in pins:
        service, domain = _two("pin", text, "=", "nginx=0-3")
        _known("service", service, placed)
        _known("domain", domain, domains.names)
        wished.setdefault(service, {}).update({f"{ONLY}{choice}": float(choice == domain) for choice in domains.names})
    for text in apart:
        service, other = _two("apart", text, ":", "nginx:user-db")
        for name in (service, other):
            _known("service", name, placed)
        wished.setdefault(service, {})[f"{APART}{other}"] = 1.0
    parameters = [
        replace(parameter, attributes={**parameter.attributes, **wished[parameter.group]})
        if parameter.group in wished and parameter.name == domains.parameter(parameter.group)
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


def capacities(services: Sequence[str], domains: Domains, profile: Profile | None) -> list[Capacity]:
    """Return the capacities of domains: CPUs for peak CPU needs, and memory where a domain has its own.

    A service that is on a host and has no parameter takes its part of it.  What the application itself puts on a host
    fits there, whatever the profile says.  Where the sum of the needs exceeds ``FULL`` of all domains, they are scaled
    down to it, as on a machine that is smaller than the application (Sfakiotakis 2023 scales them to the capacity).
    """
    if profile is None or not services:
        return []
    fixed = {name: domain for name, domain in domains.at.items() if name not in services}
    peaks, memory = profile.about.peaks, profile.about.memory_mib
    room, need = FULL * sum(domains.cores.values()), sum(peaks.get(name, 0.0) for name in (*services, *fixed))
    scale = min(1.0, room / need) if need > 0 else 1.0
    cpus = {name: scale * peak for name, peak in peaks.items()}

    def limits(needs: Mapping[str, float], wholes: Mapping[str, float], what: str) -> list[Capacity]:
        weights = {domains.parameter(name): needs.get(name, 0.0) for name in services}
        bounds = {}
        for domain, whole in wholes.items():
            taken = sum(needs.get(name, 0.0) for name, at in fixed.items() if at == domain)
            own = sum(needs.get(name, 0.0) for name in services if domains.at.get(name) == domain)
            bounds[domain] = max(own, whole - taken)
        return [Capacity(weights, domain, bound, what) for domain, bound in bounds.items()]

    with_memory = any(memory.get(name, 0.0) for name in services)
    return [
        *limits(cpus, domains.cores, "peak CPU need"),
        *(limits(memory, domains.memory_mib, "memory in MiB") if with_memory else ()),
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
