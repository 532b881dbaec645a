"""Options, declared once: the fields of a request, each annotated with an Option.

The command line, the body of a request over HTTP with its JSON schema, the dashboard's form and the reference page are
made from this declaration, so that an option has one name, one default and one range everywhere.
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
    """The presentation and the range of an option; the field has its name, type and default.

    ``help``: a phrase without a full stop that names no flag.  ``stage``: the part of a study that it belongs to.
    ``unit``: of a number; a number in s or ms is written as a duration on the command line.

    ``low``, ``above``, ``high``: the range of a number, ``above`` exclusive.  ``high_over_http``: the upper bound over
    HTTP, where the command line has none.  ``choices``: all allowed texts.  ``longest``: the number of characters that
    a text may have, where it is longer than a name.  ``absent``: the meaning of None.

    ``flag``: on the command line, where it differs from the field's name with hyphens.  ``written``: an addition to the
    help on the form of the text, such as "such as 20s".  ``command``: the one that takes it.  ``within``: an option
    whose choices include this one's value, as in bottlenecks:FILE; this one then has no flag.  ``hidden``: for
    experiments only.

    ``label``: in the dashboard's form, empty for no field there.  ``kept``: the service has such a file itself; over
    HTTP, the option says whether to use that file.  ``commas``: several names may be typed in one text, with commas
    between them.
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
    commas: bool = False

    def range(self, low: float | None = None, *, over_http: bool = False) -> str:
        """Return the range in words, empty where there is none.  ``low``: in place of the declared one."""
        least = self.low if low is None else low
        most = self.high_over_http if over_http and self.high is None else self.high
        if self.above is not None:
            return f"above {self.above:g}"
        if least is None:
            return ""
        return f"at least {least:g}" if most is None else f"{least:g} to {most:.10g}"

    def contains(self, value: float, low: float | None = None) -> bool:
        """Return whether a number is in the range; NaN never is.  ``low``: in place of the declared one."""
        least = self.low if low is None else low
        return (
            (least is None or value >= least)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
            and value == value
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """An option with the name, type and default of its field."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """The flag on the command line; empty where the option is written within another one."""
        if self.option.within:
            return ""
        return self.option.flag or "--" + self.name.replace("_", "-")

    @property
    def is_duration(self) -> bool:
        """Whether the option is a time, which people write with its unit."""
        return self.option.unit in ("s", "ms")


@cache
def options_of(request: type[Any]) -> Mapping[str, Declared]:
    """Return name -> option of a request, in the order of its fields."""
    types = get_type_hints(request, include_extras=True)
    options = {}
    for field in fields(request):
        if get_origin(types[field.name]) is Annotated:
            kind, option = get_args(types[field.name])
            options[field.name] = Declared(field.name, kind, _default(field), option)
    return options


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
