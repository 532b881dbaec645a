"""Routes of measurements of energy: list them, show one; nothing is measured by them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse

from framework.api.dependencies import READ, AppService, ReadCaller
from framework.energy.totals import Total, totals
from framework.errors import NotFound
from framework.model.energy_measurement import EnergyMeasurement
from framework.study.energy_records import EnergyRecords

JSON = "application/json"
COUNTER = "tailor_energy_joules_total"

router = APIRouter(tags=["energy"], dependencies=[READ])


@router.get("/energy")
def measurements(service: AppService) -> list[dict[str, Any]]:
    """List the applications whose energy was measured here."""
    return listed(service.energies)


@router.get("/energy/{application}", response_model=dict[str, Any])
async def measurement(application: str, service: AppService, caller: ReadCaller) -> Response:
    """Show what a measurement says: the phases, and the joules and cycles per request and per I/O operation."""
    await run_in_threadpool(service.energies.check, application)
    return Response(await service.rendering.answer("energy", [application], [], caller.who), media_type=JSON)


@router.get("/energy/{application}/report", response_class=HTMLResponse)
async def report(application: str, service: AppService, caller: ReadCaller) -> HTMLResponse:
    """Return the HTML page of a measurement."""
    await run_in_threadpool(service.energies.check, application)
    return HTMLResponse(await service.rendering.answer("energy_report", [application], [], caller.who))


def listed(records: EnergyRecords) -> list[dict[str, Any]]:
    """Return the measurements in short; without those that cannot be read."""
    return [
        {
            "application": name,
            "source": measurement.source,
            "label": measurement.label,
            "at": measurement.at,
            "rates_rps": list(measurement.rates_rps),
            "windows": len(measurement.windows),
            "left_out": sum(bool(window.invalid) for window in measurement.windows),
        }
        for name, measurement in _readable(records)
    ]


def energy_metrics(records: EnergyRecords) -> list[str]:
    """Return the joules of all measured windows in the Prometheus text format; they grow with each window."""
    lines = [
        f'{COUNTER}{{application="{name}",label="{measurement.label}",service="{total.service}",zone="{total.zone}",'
        f'state="{total.state}"}} {total.joules:.6g}'
        for name, measurement in _readable(records)
        for total in _sorted(totals(measurement))
    ]
    about = "Energy in measured windows; idle: what the machine takes when nothing runs."
    return [f"# HELP {COUNTER} {about}", f"# TYPE {COUNTER} counter", *lines] if lines else []


def _sorted(every: list[Total]) -> list[Total]:
    return sorted(every, key=lambda total: (total.state, total.service, total.zone))


def _readable(records: EnergyRecords) -> Iterator[tuple[str, EnergyMeasurement]]:
    for name in records.names():
        try:
            yield name, records.read(name)
        except NotFound:
            continue
