"""Routes of guards: which there were, and what each did; a guard itself is started on the machine that it guards."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from framework.api.dependencies import READ, AppService
from framework.guard.audit import Audits
from framework.model.guard_record import entry_document
from framework.report.guard import guard_contents

SHOWN_S = 3600.0  # on a guard's page

router = APIRouter(tags=["guards"], dependencies=[READ])


@router.get("/guards")
def guards(service: AppService) -> list[dict[str, Any]]:
    """List the guards, the newest first, each with its sums."""
    return [guard_document(service.audits, guard) for guard in service.audits.ids()]


@router.get("/guards/{guard}")
def entries(guard: str, service: AppService, after_s: float = -1.0) -> dict[str, Any]:
    """Return a guard's sums, and its audit log after a time [s]."""
    written = service.audits.followed(guard).after(after_s)
    return {**guard_document(service.audits, guard), "entries": [entry_document(entry) for entry in written]}


def guard_document(audits: Audits, guard: str) -> dict[str, Any]:
    """Return a guard as plain data.  Raises NotFound."""
    log = audits.followed(guard)
    began, summary = log.began, log.summary
    return {
        "id": guard,
        "at": began.at,
        "guarded": began.guarded,
        "policy": began.policy,
        "quantile": began.quantile,
        "target_ms": began.host.target_ms,
        "dry_run": began.dry_run,
        "running": audits.running(guard),
        "time_s": summary.time_s,
        "violation": summary.violation,
        "worst_ms": summary.worst_ms,
        "work_s": summary.work_s,
        "utilisation": summary.utilisation,
        "energy_estimated_j": None if began.power is None else summary.idle_j + summary.lc_j + summary.be_j,
    }


def guard_view(audits: Audits, guard: str) -> dict[str, Any]:
    """Return the variables of a guard's page: its last hour, with the sums of all of it.  Raises NotFound."""
    log = audits.followed(guard)
    last = log.summary.last
    since_s = last.time_s - SHOWN_S if last is not None else 0.0
    if since_s <= 0:
        return guard_contents(log.after(-1.0), log.summary)
    return guard_contents([log.began, *log.after(since_s)], log.summary, since_s)


def guard_metrics(audits: Audits) -> list[str]:
    """Return the last sample of the guard that runs, in the Prometheus text format; nothing where none runs."""
    newest = next(iter(audits.ids()), "")
    if not newest or not audits.running(newest):
        return []
    log = audits.followed(newest)
    began, summary, last = log.began, log.summary, log.summary.last
    if last is None:
        return []
    label = f'{{guarded="{began.guarded}"}}'
    sample, setting = last.sample, last.decision.setting
    values = {
        "latency_ms": ("Tail latency of the last window.", sample.latency_ms),
        "target_ms": ("Its target.", began.host.target_ms),
        "rate_rps": ("Requests per second.", sample.rate_rps),
        "lc_cores": ("Cores that the application uses.", sample.lc_cores),
        "be_cores": ("Cores that best-effort jobs use.", sample.be_cores),
        "be_cores_allowed": ("Cores that they may use.", setting.cores if setting.running else 0),
        "violation_seconds": ("Time with a missed target, or without a reading.", summary.violation_s),
        "be_work_seconds": ("CPU time of best-effort jobs.", summary.work_s),
    }
    joules = {"idle": summary.idle_j, "lc": summary.lc_j, "be": summary.be_j} if began.power is not None else {}
    lines = []
    for name, (about, value) in values.items():
        if value is not None:
            full = f"tailor_guard_{name}"
            kind = "counter" if name.endswith("_seconds") else "gauge"
            lines += [f"# HELP {full} {about}", f"# TYPE {full} {kind}", f"{full}{label} {value:g}"]
    if joules:
        name = "tailor_guard_energy_joules_total"
        lines += [f"# HELP {name} Energy by user, estimated from CPU time.", f"# TYPE {name} counter"]
        lines += [f'{name}{{guarded="{began.guarded}",user="{user}"}} {value:g}' for user, value in joules.items()]
    return lines
