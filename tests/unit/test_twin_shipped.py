"""The twins that come with the applications are what their committed evidence makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framework.config.application import load_application
from framework.config.knowledge import load_service_types, resolved
from framework.config.twin_file import load_twin, twin_path, twin_text
from framework.twin.calibration.assemble import calibrated
from framework.twin.calibration.data import read_evidence
from framework.twin.calibration.effects import learnt_effects
from framework.twin.calibration.fit import errors, fixed
from framework.use_cases.twin import simulated, split

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = {
    "hotel-reservation": ROOT / "experiments" / "placement-scenarios" / "results" / "evidence.json",
    "social-network": ROOT / "experiments" / "twin-validation" / "round-2" / "results" / "evidence.json",
}


def test_every_shipped_twin_has_evidence() -> None:
    assert [path.parent.name for path in sorted(ROOT.glob("apps/*/twin.json"))] == list(EVIDENCE)


@pytest.mark.parametrize("name", EVIDENCE)
def test_it_is_made_again_from_its_evidence(name: str) -> None:
    """Its structure and demands from traces and counters, and the fitted numbers that it keeps; finding these
    anew is the experiment's `run calibrate` or `run twin`, which takes minutes.
    """
    directory = ROOT / "apps" / name
    application, shipped = load_application(directory), load_twin(twin_path(directory))
    data = read_evidence(EVIDENCE[name])
    types = resolved(load_service_types(), cores=data.evidence.cores, memory_mib=data.evidence.memory_mib)
    training, validation = split(data.points)
    effects, training = learnt_effects(application, types, training)
    unfitted = calibrated(application, types, data.structure, data.evidence, effects)
    made = fixed(unfitted, shipped.fit)
    again, kept = (json.loads(twin_text(twin)) for twin in (made, shipped))
    assert again.pop("fit").items() <= kept.pop("fit").items()
    assert _numbers(again) == pytest.approx(_numbers(kept), rel=1e-9), "other processors round otherwise"
    assert _shape(again) == _shape(kept)
    for name, points in (("fitted", simulated(training)), ("validation", simulated(validation))):
        p50, p95 = errors(shipped, application, types, points)
        assert p50 == pytest.approx(shipped.fit[f"{name}_p50_error"], abs=0.02)
        assert p95 == pytest.approx(shipped.fit[f"{name}_p95_error"], abs=0.02)
    few = simulated(training)
    assert errors(shipped, application, types, few) < errors(unfitted, application, types, few)


def _numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    return [float(value)] if isinstance(value, int | float) else []


def _shape(value: Any) -> Any:
    """Return the document without its numbers."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return value if isinstance(value, str) else None
