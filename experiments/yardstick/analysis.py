"""The part of the differences between windows that a covariate explains, and the effect of configurations on it.

Everything in logarithms.  Within an arm the configuration is the same, so that what p95 and the covariate have in
common there comes from the machine; how the arms' means of the covariate differ tells what the configuration does to
it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from framework.model import Trial

Array = NDArray[np.float64]

LEAST = 10  # windows


def analyse(trials: Sequence[Trial]) -> dict[str, Any]:
    """By covariate: the part of the variance within arms that it leaves, its slope, its shift by arm; and the arms'
    ratios of p95 to the default, raw and adjusted, with their standard errors.
    """
    rows = [(t.label.rpartition(" "), m) for t in trials for m in t.measurements if m.value is not None]
    arm = np.array([label[0] for label, _ in rows])
    y = np.array([math.log(m.value or 0.0) for _, m in rows])
    columns: dict[str, list[float]] = {}
    for _, m in rows:
        columns.setdefault("generator per request", []).append(m.cpu["generator"] / m.achieved_rps)
        columns.setdefault("jaeger per request", []).append(m.cpu["jaeger"] / m.achieved_rps)
        columns.setdefault("application per request", []).append(m.cpu["application"] / m.achieved_rps)
        if m.tick_us is not None:
            columns.setdefault("tick", []).append(m.tick_us)
    names = [name for name in dict.fromkeys(arm.tolist()) if name != "default"]
    report: dict[str, Any] = {"windows": {name: int((arm == name).sum()) for name in ("default", *names)}}
    report["raw"] = {name: _ratio(y, arm, name) for name in names}
    for column, values in columns.items():
        if len(values) == len(y):
            report[column] = _explained(y, np.log(np.array(values)), arm, names)
    return report


def recorded(path: Path) -> dict[str, Any] | None:
    """Return how much the generator's own CPU time per request explains in a result file of any experiment.

    Within configurations; ``neighbours``: correlation of that time in windows that follow each other.  None where fewer
    than ten windows count.
    """
    document = json.loads(path.read_text())
    rows = [
        (json.dumps(trial["configuration"], sort_keys=True), math.log(m["value"]), math.log(_own(m)))
        for trial in (document.get("trials_detail", ()) if isinstance(document, dict) else ())
        for m in trial["measurements"]
        if m["value"] is not None and not m["invalid"] and m["cpu"]
    ]
    if len(rows) < LEAST:
        return None
    arm = np.array([row[0] for row in rows])
    explained = _explained(np.array([row[1] for row in rows]), np.array([row[2] for row in rows]), arm, [])
    deviation = float(_within(np.array([row[1] for row in rows]), arm).std())
    own = np.array([row[2] for row in rows])
    neighbours = round(float(np.corrcoef(own[:-1], own[1:])[0, 1]), 2)
    return {"windows": len(rows), "deviation of log p95": round(deviation, 3), "neighbours": neighbours} | {
        name: explained[name] for name in ("deviation within arms", "slope", "correlation", "variance left")
    }


def _own(measurement: dict[str, Any]) -> float:
    return float(measurement["cpu"]["generator"] / measurement["achieved_rps"])


def _explained(y: Array, x: Array, arm: NDArray[np.str_], names: Sequence[str]) -> dict[str, Any]:
    dy, dx = _within(y, arm), _within(x, arm)
    slope = float(dy @ dx / (dx @ dx))
    left = dy - slope * dx
    return {
        "deviation within arms": round(float(dx.std()), 4),
        "slope": round(slope, 2),
        "correlation": round(float(np.corrcoef(dx, dy)[0, 1]), 3),
        "variance left": round(float((left @ left) / (dy @ dy)), 3),
        "shift by arm": {name: _ratio(x, arm, name) for name in names},
        "adjusted": {name: _ratio(y - slope * x, arm, name) for name in names},
    }


def _within(values: Array, arm: NDArray[np.str_]) -> Array:
    """Deviations from the mean of each arm."""
    deviations = values.copy()
    for name in set(arm.tolist()):
        deviations[arm == name] -= values[arm == name].mean()
    return deviations


def _ratio(values: Array, arm: NDArray[np.str_], name: str) -> list[float]:
    """Mean log ratio to the default and its standard error."""
    values_of_arm, base = values[arm == name], values[arm == "default"]
    if len(values_of_arm) < 2 or len(base) < 2:
        return [math.nan, math.nan]
    error = math.sqrt(values_of_arm.var(ddof=1) / len(values_of_arm) + base.var(ddof=1) / len(base))
    return [round(float(values_of_arm.mean() - base.mean()), 4), round(error, 4)]
