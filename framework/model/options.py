"""Options, declared once: the fields of a request, each annotated with an Option.

The command line, the body of a request over HTTP with its JSON schema, the dashboard's form and the reference page are
made of this declaration, so that an option has one name, one default and one range wherever it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Stage = Literal["space", "search", "measurement", "verdict"]
STAGES: Mapping[Stage, str] = {
    "search": "Search: what is tried, and how long",
    "space": "Space: what is tuned",
    "measurement": "Measurement: where and how a configuration is measured",
    "verdict": "Verdict: what is proven in the end",
}


@dataclass(frozen=True, slots=True)
class Option:
    """An option as people see it; the field has its name, type and default.

    ``help``: a phrase without a full stop that names no flag.  ``stage``: the part of a study that it is of.  ``unit``:
    of a number; one in s or ms is written as a duration on the command line.

    ``low``, ``above``, ``high``: the range of a number, ``above`` exclusive.  ``high_over_http``: the most that may be
    asked for over HTTP, where the command line has no such bound.  ``choices``: of a text, all that are allowed.
    ``longest``: characters of a text that is more than a name.  ``absent``: what None stands for.

    ``flag``: on the command line, where it is not the field's name with hyphens.  ``written``: an addition to the help
    that is about text, such as "such as 20s".  ``command``: that takes it.  ``within``: the option behind one of whose
    choices it is written, as in bottlenecks:FILE; such an option has no flag.  ``hidden``: for experiments only.

    ``label``: in the dashboard's form; empty: not there.  ``kept``: a file of which the service keeps its own, so that
    over HTTP one says whether to use that.
    """

    help: str
    stage: Stage
    unit: str = ""
    low: float | None = None
    above: float | None = None
    high: float | None = None
    high_over_http: float | None = None
    choices: tuple[str, ...] = ()
    longest: int | None = None
    absent: str = ""
    flag: str = ""
    written: str = ""
    command: Literal["tune", "place"] = "tune"
    within: str = ""
    hidden: bool = False
    label: str = ""
    kept: bool = False

    def range(self, low: float | None = None, *, over_http: bool = False) -> str:
        """The range in words, empty where there is none; ``low`` in place of the declared one."""
        least = self.low if low is None else low
        most = self.high_over_http if over_http and self.high is None else self.high
        if self.above is not None:
            return f"above {self.above:g}"
        if least is None:
            return ""
        return f"at least {least:g}" if most is None else f"{least:g} to {most:.10g}"

    def contains(self, value: float, low: float | None = None) -> bool:
        """Whether a number is in the range; NaN never is.  ``low`` in place of the declared one."""
        least = self.low if low is None else low
        return (
            (least is None or value >= least)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and value == value
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with what its field says: name, type and default."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """How it is spelled on the command line; empty where it is written within another option."""
        if self.option.within:
            return ""
        return self.option.flag or "--" + self.name.replace("_", "-")

    @property
    def is_duration(self) -> bool:
        """Whether it is a time, which people write with its unit."""
        return self.option.unit in ("s", "ms")


@cache
def options_of(request: type[Any]) -> Mapping[str, Declared]:
    """The options of a request by name, in the order of its fields."""
    types = get_type_hints(request, include_extras=True)
    found = {}
    for field in fields(request):
        if get_origin(types[field.name]) is Annotated:
            kind, option = get_args(types[field.name])
            found[field.name] = Declared(field.name, kind, _default(field), option)
    return found


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
