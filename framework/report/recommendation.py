"""A recommendation as a person reads it: tied parameters in one line, with what each line is worth.

The expected effect is what the model of the trials predicts; an effect is shown where fresh runs were made without the
change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from framework.model import Estimate, Study, Verdict
from framework.model.decisions import ExpectedChange
from framework.report.changes import Change
from framework.study.verdict import without
from optimizer.space import Value

MOST_LINES = 10  # what a person reads
INTERVAL = 1.96  # standard deviations to the ends of a 95 % interval


@dataclass(frozen=True, slots=True)
class RecommendedChange:
    """A parameter that gets one value in some services.  ``default``, ``value``: with their unit.

    ``expected``: gain as a fraction of the value without the change, predicted by a model of the trials (``count`` is
    the number of parameters); None where nothing was predicted.  ``shown``: the comparison of fresh runs with and
    without the change; None where it was not made.  ``risk``: "none", "data" or "memory".  ``derived``: the value
    follows from other parameters.  ``passed``: the value was seen in the containers, but no server told it.
    """

    parameter: str
    services: tuple[str, ...]
    default: str
    value: str
    description: str
    expected: Estimate | None = None
    shown: Verdict | None = None
    risk: str = "none"
    derived: bool = False
    passed: bool = False

    @property
    def label(self) -> str:
        """The parameter's name, marked where it is derived, and where no server told its value."""
        marks = [mark for mark, applies in (("derived", self.derived), ("passed", self.passed)) if applies]
        return f"{self.parameter} ({', '.join(marks)})" if marks else self.parameter

    @property
    def where(self) -> str:
        """The services, counted and named."""
        count = len(self.services)
        return self.services[0] if count == 1 else f"{count} services: {', '.join(self.services)}"

    @property
    def briefly(self) -> str:
        """The services for one line of a terminal: the name of a single one, the number of several."""
        return self.services[0] if len(self.services) == 1 else str(len(self.services))

    @property
    def effect(self) -> str:
        """The expected and the shown gain with their intervals, as text; empty where there is neither."""
        texts = [] if self.expected is None else [f"{_percent(self.expected)} expected"]
        if self.shown is not None:
            texts.append(f"{_percent(self.shown.gain)} shown")
        return ", ".join(texts)


def recommended(study: Study, changes: Sequence[Change]) -> tuple[RecommendedChange, ...]:
    """Return the lines: the largest expected gain first, then those of most services, then derived parameters."""
    lines: dict[tuple[str, str, str, str, bool], list[Change]] = {}
    for change in changes:
        texts = (_text(change.default, change.unit), _text(change.value, change.unit))
        lines.setdefault((change.parameter, *texts, change.description, bool(change.follows)), []).append(change)
    rows = [_line(study, members, key[1], key[2]) for key, members in lines.items()]
    return tuple(sorted(rows, key=lambda row: (row.derived, -_value(row.expected), -len(row.services))))


def rest(lines: Sequence[RecommendedChange]) -> str:
    """Say in a sentence what is not among the first lines; empty where all are."""
    more = lines[MOST_LINES:]
    if not more:
        return ""
    many = sum(len(line.services) for line in more)
    services = {service for line in more for service in line.services}
    names = dict.fromkeys(line.label for line in more)
    some = ", ".join(list(names)[:5]) + (", ..." if len(names) > 5 else "")
    return f"and {len(more)} further changes ({many} parameters in {len(services)} services: {some})"


def lines_as_text(lines: Sequence[RecommendedChange]) -> list[str]:
    """Return the first lines as plain text, and a last one for the rest."""
    texts = [
        f"{line.label} {line.value} (default {line.default}) in {line.where}"
        + (f"; {line.effect}" if line.effect else "")
        + (f"; can cost {line.risk}" if line.risk != "none" else "")
        for line in lines[:MOST_LINES]
    ]
    return [*texts, *filter(None, [rest(lines)])]


def document(lines: Sequence[RecommendedChange]) -> list[Mapping[str, object]]:
    """Return the lines as values that ``framework.model.documents.encode`` makes JSON of."""
    return [
        {
            "parameter": line.parameter,
            "services": line.services,
            "default": line.default,
            "value": line.value,
            "expected": None
            if line.expected is None
            else {"gain": line.expected.value, "low": line.expected.low, "high": line.expected.high},
            "shown": line.shown,
            "risk": line.risk,
            "proof": "passed" if line.passed else "proven",
        }
        for line in lines
    ]


def _line(study: Study, members: Sequence[Change], default: str, value: str) -> RecommendedChange:
    names = {f"{change.service}.{change.parameter}" for change in members}
    first = members[0]
    predicted = _predicted(study, names, first.value)
    return RecommendedChange(
        first.parameter,
        tuple(change.service for change in members),
        default,
        value,
        first.description,
        None if predicted is None else _gain(predicted),
        None if predicted is None else study.rivals.get(without(predicted)),
        "none" if predicted is None else predicted.risk,
        bool(first.follows),
        any(change.proof == "passed" for change in members),
    )


def _predicted(study: Study, names: set[str], value: Value) -> ExpectedChange | None:
    """Return the prediction for exactly these parameters; a part of a change has another effect."""
    small = study.decisions.small
    known = () if small is None else small.changes
    return next((change for change in known if set(change.names) == names and change.value == value), None)


def _gain(predicted: ExpectedChange) -> Estimate:
    half = INTERVAL * predicted.deviation
    low, high = (-math.expm1(predicted.log_ratio + side) for side in (half, -half))
    return Estimate(-math.expm1(predicted.log_ratio), low, high, len(predicted.names))


def _value(expected: Estimate | None) -> float:
    return -math.inf if expected is None else expected.value


def _text(value: Value, unit: str) -> str:
    return f"{value} {unit}".rstrip()


def _percent(gain: Estimate) -> str:
    return f"{100 * gain.value:+.1f} % [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
