"""The analysis of the repeatability experiment's rounds: spreads, and paired ratios with their intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from framework.model import Measurement, Trial
from framework.model.documents import encode
from framework.objective import compare

Table = Mapping[str, Mapping[int, list[Measurement]]]
"""Part -> round -> the valid measurements of it, in order."""


def analyse(trials: Sequence[Trial]) -> dict[str, Any]:
    """Every number of the account.  p95 in ms is the generator's where an untraced arm is compared, else the spans'."""
    table = _table(trials)
    between = [m.value for rows in table["between"].values() for m in rows if m.value is not None]
    measurements = [m for t in trials for m in t.measurements]
    document: dict[str, Any] = encode(
        {
            "windows": len(measurements),
            "invalid": sum(bool(m.invalid) for m in measurements),
            "between_deployments": _spread([between]),
            "within_a_deployment": _spread([[m.value for m in rows if m.value is not None] for rows in _within(table)]),
            "later_to_first_window": _ratio(
                {k: rows[0].value for k, rows in table["within"].items() if len(rows) > 1},
                {k: rows[-1].value for k, rows in table["within"].items() if len(rows) > 1},
            ),
            "incremental_to_fresh": _ratio(_p95(table["between"]), _p95(table["after other"])),
            "traced_to_untraced": _ratio(
                _p95(table["untraced"], generator=True), _p95(table["between"], generator=True)
            ),
            "cpu": {name: _shares(table[name]) for name in ("between", "untraced")},
            "seconds_per_phase": _phases(table["between"]),
        }
    )
    return document


def _table(trials: Sequence[Trial]) -> Table:
    """A later trial of the same label replaces an earlier one (a part that was cut off was begun anew)."""
    latest = {t.label: t for t in trials}
    table: dict[str, dict[int, list[Measurement]]] = {
        name: {} for name in ("between", "untraced", "within", "other", "after other")
    }
    for label, trial in latest.items():
        name, _, number = label.rpartition(" ")
        valid = [m for m in trial.measurements if not m.invalid and m.value is not None]
        table[name].setdefault(int(float(number)), []).extend(valid)
    return table


def _within(table: Table) -> list[list[Measurement]]:
    """The windows after the first of each deployment: all on processes that go on."""
    return [rows[1:] for rows in table["within"].values() if len(rows) > 2]


def _p95(rows: Mapping[int, list[Measurement]], generator: bool = False) -> dict[int, float | None]:
    return {k: m[0].generator_p95_ms if generator else m[0].value for k, m in rows.items() if m}


def _spread(groups: Sequence[Sequence[float]]) -> dict[str, float | int | None]:
    """Standard deviation of log p95 (a coefficient of variation), pooled over groups."""
    logarithms = [np.log(group) for group in groups if len(group) > 1]
    degrees = sum(len(group) - 1 for group in logarithms)
    if not degrees:
        return {"windows": 0, "deviation_of_log_p95": None, "median_p95_ms": None}
    pooled = math.sqrt(sum(float(np.sum((group - group.mean()) ** 2)) for group in logarithms) / degrees)
    windows = np.concatenate(logarithms)
    return {
        "windows": len(windows), "deviation_of_log_p95": pooled, "median_p95_ms": float(np.exp(np.median(windows))),
        "smallest_ms": float(np.exp(windows.min())), "largest_ms": float(np.exp(windows.max())),
    }  # fmt: skip


def _ratio(reference: Mapping[int, float | None], other: Mapping[int, float | None]) -> dict[str, Any]:
    """other / reference over rounds that have both: the Hodges-Lehmann ratio with its interval."""
    pairs = [(reference[k], other[k]) for k in sorted(reference.keys() & other.keys())]
    whole = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(whole) < 2:
        return {"pairs": len(whole)}
    verdict = compare([a for a, _ in whole], [b for _, b in whole])
    low, high = math.exp(verdict.log_ratio.low), math.exp(verdict.log_ratio.high)
    return {
        "pairs": len(whole), "ratio": math.exp(verdict.log_ratio.value), "low": low, "high": high,
        "coverage": verdict.coverage, "p_value": verdict.p_value,
    }  # fmt: skip


def _shares(rows: Mapping[int, list[Measurement]]) -> dict[str, float]:
    """Median share of the machine's CPU time in a window, by who used it."""
    measurements = [m for group in rows.values() for m in group]
    names = sorted({name for m in measurements for name in m.cpu})
    shares = {name: float(np.median([m.cpu.get(name, 0.0) for m in measurements])) for name in names}
    stolen = [m.stolen_cpu for m in measurements if m.stolen_cpu is not None]
    return shares | ({"stolen": float(np.median(stolen))} if stolen else {})


def _phases(rows: Mapping[int, list[Measurement]]) -> dict[str, float]:
    measurements = [m for group in rows.values() for m in group]
    names = list(dict.fromkeys(name for m in measurements for name in m.phases))
    return {name: float(np.median([m.phases.get(name, 0.0) for m in measurements])) for name in names}
