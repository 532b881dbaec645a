"""Effects of parameters by type of server: learnt from the trials of one application, a prior mean in another.

Two applications share no services, but they share types of servers: both run postgresql.  The trials of one tell how
the logarithm of the value changes when a parameter of all servers of a type is moved.  In the other application each
server of the type has an equal part of that change, and the sum over all of them is the prior mean, which counts as far
as measurements agree with it (``simulator_prior.fitted_rho``).

The effect of a set of parameters is the posterior of its part of the additive process (``additive``): a part of a sum
of Gaussian processes is one itself (Duvenaud, Nickisch & Rasmussen, NIPS 2011, section 2).  Several sources are
combined by their precisions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizer.errors import InvalidInput
from optimizer.models.additive import AdditiveProcess, Array, Layout
from optimizer.models.surrogate import Encoder, one_thread
from optimizer.models.tied_parameters import ALONE, TiedParameters, tied_parameters
from optimizer.space import Configuration, Parameter, SearchSpace, Value

FEWEST_RESULTS = 8  # from which effects are learnt: fewer cannot tell the parameters apart
FAILED = 0.2  # log of how much worse than the worst value a failure counts, and the standard deviation of that
MOST_VALUES = 9  # of an ordered parameter at which its effect is kept; between them it is linear


@dataclass(frozen=True, slots=True)
class EffectPoint:
    """An effect at one value: log(value of the application / that with the default), and its standard deviation."""

    value: Value
    log_ratio: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a parameter of all servers of one type, relative to the default of where it was learnt.

    ``curve``: by increasing value, of an ordered parameter, on the scale ``scale``; ``levels``: by special values or
    choices, each with an effect of its own.  ``best``: the value in the best configuration there, the most usual or the
    median of all servers of the type.
    """

    server: str  # its type
    parameter: str
    scale: str  # "linear" or "log"
    curve: tuple[EffectPoint, ...]
    levels: tuple[EffectPoint, ...]
    best: Value

    def at(self, value: Value) -> EffectPoint | None:
        """Return the effect at a value: that at the nearest end outside the curve; None where nothing is known."""
        for level in self.levels:
            if level.value == value and isinstance(level.value, bool) == isinstance(value, bool):
                return level
        if not self.curve or isinstance(value, str | bool) or (self.scale == "log" and value <= 0):
            return None
        places = [self._place(point.value) for point in self.curve]
        at = self._place(value)
        return EffectPoint(
            value,
            float(np.interp(at, places, [point.log_ratio for point in self.curve])),
            float(np.interp(at, places, [point.deviation for point in self.curve])),
        )

    def _place(self, value: Value) -> float:
        return math.log(float(value)) if self.scale == "log" else float(value)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured configuration: log(value / that of the default), and its standard deviation; None: it failed."""

    values: Mapping[str, Value]
    log_ratio: float | None
    error: float = 0.0


def learnt_effects(space: SearchSpace, types: Mapping[str, str], results: Sequence[Measured]) -> tuple[Effect, ...]:
    """Return the effect of every parameter of a type of server, from the results of one application.

    ``types``: group of parameters -> type of the server; others are left out.  ``results``: the default among them.
    Failures count as a little worse than the worst value, so that what makes a deployment fail is learnt too.  Raises
    InvalidInput for fewer than 8 different results with a value, InvalidValue for one of another space.
    """
    default = space.default()
    configurations = [space.validate(result.values) for result in results]
    valued = len({Configuration(result.values) for result in results if result.log_ratio is not None})
    if valued < FEWEST_RESULTS:
        raise InvalidInput(f"found {valued} configurations with a value; allowed: at least {FEWEST_RESULTS}")
    encoder = Encoder(space)
    layout = Layout.of(space, encoder.columns, np.ones(len(space)))
    layout = replace(layout, sets=tied_parameters(space, encoder.columns, types))
    y, errors = _logarithms(results)
    spread = float(np.std(y)) or 1.0
    scaled = np.minimum((y - float(y.mean())) / spread, 2.5)  # a disaster counts no more than a bad value
    x = encoder.encode(encoder.units(configurations))
    at_default = encoder.encode(encoder.units([default]))
    effects = []
    with one_thread():
        process = AdditiveProcess(layout, x, scaled, (errors / spread) ** 2)
        lowest = min(
            (place for place, result in enumerate(results) if result.log_ratio is not None),
            key=lambda place: float(process.means[place]),
        )
        for number, tied in enumerate(layout.sets):
            parameters = [space.parameters[member] for member in tied.members]
            first = parameters[0]
            if first.group in types and transferable(first):
                curve, levels = _values(parameters)
                moved = _moved(space, encoder, tied, [*curve, *levels])
                weight = np.full(len(tied.members), 1.0 / len(tied.members))
                changes = tied.features(moved, weight) - tied.features(at_default, weight)
                mean, deviation = process.part(number, changes)
                points = [
                    EffectPoint(value, float(f"{spread * change:.5g}"), float(f"{spread * doubt:.5g}"))
                    for value, change, doubt in zip([*curve, *levels], mean, deviation, strict=True)
                ]
                best = _usual([configurations[lowest][parameter.name] for parameter in parameters], first.ordered)
                of_curve, of_levels = tuple(points[: len(curve)]), tuple(points[len(curve) :])
                effects.append(Effect(types[first.group], own_name(first), first.scale, of_curve, of_levels, best))
    return tuple(effects)


def _usual(values: Sequence[Value], ordered: bool) -> Value:
    """Return the median of numbers, the lower one of two, or the most frequent choice."""
    return sorted(values, key=float)[(len(values) - 1) // 2] if ordered else Counter(values).most_common(1)[0][0]


def _logarithms(results: Sequence[Measured]) -> tuple[Array, Array]:
    """Return log ratios and their standard deviations, both (n,), with those that failures count as."""
    worst = max(result.log_ratio for result in results if result.log_ratio is not None) + FAILED
    y = [worst if result.log_ratio is None else result.log_ratio for result in results]
    return np.array(y), np.array([FAILED if result.log_ratio is None else result.error for result in results])


def parameter_names(space: SearchSpace, types: Mapping[str, str]) -> dict[str, set[str]]:
    """Return type of server -> names of its parameters in a space; places are left out, they are of one machine."""
    names: dict[str, set[str]] = {}
    for parameter in space.parameters:
        if parameter.group in types and transferable(parameter):
            names.setdefault(types[parameter.group], set()).add(own_name(parameter))
    return names


def transferable(parameter: Parameter) -> bool:
    """Return whether a parameter means the like in other applications; places, such as sets of CPUs, do not."""
    return not parameter.attributes.get(ALONE)


def own_name(parameter: Parameter) -> str:
    """Return a parameter's name without its group."""
    return parameter.name.removeprefix(f"{parameter.group}.")


def _values(parameters: Sequence[Parameter]) -> tuple[list[Value], list[Value]]:
    """Return values of tied parameters, increasing, and their special values or choices."""
    first = parameters[0]
    if not first.ordered:
        return [], list(first.choices)
    usual: set[float] = set()
    defaults = {float(parameter.default) for parameter in parameters if parameter.default not in parameter.special}
    for parameter in parameters:
        begin, stop = parameter.usual
        usual |= {float(parameter.from_unit(unit)) for unit in np.linspace(begin + 1e-9, stop - 1e-9, MOST_VALUES)}
    ordered = sorted(usual)
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_VALUES)).round().astype(int))
    curve: list[Value] = sorted({ordered[place] for place in places} | defaults)
    return curve, list(first.special)


def _moved(space: SearchSpace, encoder: Encoder, tied: TiedParameters, values: Sequence[Value]) -> Array:
    """Return the default with all members of a set moved to each value, encoded (n, columns)."""
    units = np.tile(space.to_unit(space.default()), (len(values), 1))
    for row, value in enumerate(values):
        for member in tied.members:
            units[row, member] = _unit(space.parameters[member], value)
    return encoder.encode(units)


def _unit(parameter: Parameter, value: Value) -> float:
    """Return the coordinate of a value of tied parameters; that of the nearest end where it is out of range."""
    if not parameter.ordered or value in parameter.special:
        return parameter.to_unit(value)
    number = min(max(float(value), float(parameter.low or 0.0)), float(parameter.high or 0.0))
    return parameter.to_unit(round(number) if parameter.kind == "integer" else number)
