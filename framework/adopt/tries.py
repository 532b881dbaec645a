"""The tries of a proof: another value of every parameter, in as few deployments as that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from framework.adopt.grades import Knob, conditions_met, graded, rounds_of
from framework.errors import InputError, TrialFailed
from framework.model import Told
from optimizer.space import Configuration, SearchSpace

Deploy = Callable[[Configuration], Mapping[str, Told]]
"""Deploys a configuration and returns what the servers tell of it.  Raises TrialFailed, InputError."""


def tried(deploy: Deploy, space: SearchSpace, progress: Callable[[str], None]) -> list[Knob]:
    """Try another value of every parameter, in as many rounds as their conditions need; return each with its grade."""
    default = space.default()
    knobs = {p.name: Knob(p.name, default[p.name], None, "not tried", "it has no other value") for p in space.tuned}
    for wanted in rounds_of(space):
        names = [name for name, knob in knobs.items() if knob.grade == "not tried" and wanted[name] != default[name]]
        for knob in _knobs_of(deploy, space, wanted, names, progress):
            knobs[knob.name] = knob
    return list(knobs.values())


def _knobs_of(
    deploy: Deploy, space: SearchSpace, wanted: Configuration, names: Sequence[str], progress: Callable[[str], None]
) -> Iterator[Knob]:
    """Try the values of these parameters: at once; service by service where that does not start; then singly."""
    default = space.default()
    groups = [list(names)] if names else []
    while groups:
        group = groups.pop(0)
        needed = {on: value for name in group for on, value in conditions_met(space, space[name]).items()}
        other = space.canonical({**default, **needed, **{name: wanted[name] for name in group}})
        changed = {name: other[name] for name in group}
        progress(f"trying other values of {', '.join(group) if len(group) < 3 else f'{len(group)} parameters'}")
        try:
            if not space.is_feasible(other):
                raise InputError("these values break a constraint of the application")
            told = deploy(other)
        except (TrialFailed, InputError) as error:
            if len(group) == 1:
                yield Knob(group[0], default[group[0]], changed[group[0]], "refused", _short(error))
            else:
                groups = [*_parts(group), *groups]
            continue
        yield from graded(default, Configuration(changed), told)


def _parts(names: Sequence[str]) -> list[list[str]]:
    """Split parameters by service, or those of one service one by one."""
    services: dict[str, list[str]] = {}
    for name in names:
        services.setdefault(name.rpartition(".")[0], []).append(name)
    return [list(group) for group in services.values()] if len(services) > 1 else [[name] for name in names]


def _short(error: Exception) -> str:
    """Return the first line of an error, and the last of the log below it, which mostly is the reason."""
    first, *log = str(error).splitlines()
    return "; ".join([first[:200], *(line.strip(" |")[:200] for line in log[-1:])])
