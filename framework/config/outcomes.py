"""Names of quantities, and limits on them such as ``p99 <= 40``, as files and the command line write them."""

from __future__ import annotations

import re

from framework.errors import InputError
from framework.model import OutcomeConstraint

QUANTITIES = "mean, median, throughput, cpu, errors, cost, energy, or a quantile such as p95 or p99.9"
_OTHERS = ("mean", "median", "throughput", "cpu", "errors", "cost", "energy")
_LIMIT = re.compile(r"\s*(\S+?)\s*(<=|>=)\s*(\d+(?:\.\d+)?)\s*")


def is_quantity(name: str) -> bool:
    """Return whether ``name`` is a quantity that Tailor measures."""
    return name in _OTHERS or (re.fullmatch(r"p[0-9]{1,2}(\.[0-9]+)?", name) is not None and float(name[1:]) > 0)


def quantity(name: str) -> str:
    """Return the name under which a quantity is stored: p50 for the median."""
    return "p50" if name == "median" else name


def outcome_constraint(text: str) -> OutcomeConstraint:
    """Read ``p99 <= 40`` (ms), ``throughput >= 100`` (requests/s), ``cpu <= 1.5`` (cores), ``errors <= 0.001``.

    ``cost <= 0.2``: money per hour, by the prices of a catalogue.  ``energy <= 0.05``: joules per request.

    Raises InputError.
    """
    match = _LIMIT.fullmatch(text)
    if match is None or not is_quantity(match[1]):
        raise InputError(f"found {text!r}; allowed: a quantity, <= or >=, and a number; quantities: {QUANTITIES}")
    return _constraint(match)


def own_constraint(text: str) -> OutcomeConstraint:
    """Read a limit on a quantity that a client measures, so that its name may be any.  Raises InputError."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise InputError(f"found {text!r}; allowed: the name of a quantity, <= or >=, and a number")
    return _constraint(match)


def _constraint(match: re.Match[str]) -> OutcomeConstraint:
    return OutcomeConstraint(quantity(match[1]), "at most" if match[2] == "<=" else "at least", float(match[3]))
