"""An audit log of a guard, for tests of what reads it."""

from __future__ import annotations

from pathlib import Path

from framework.guard.audit import Audits, AuditWriter
from framework.model.guard import Decision, GuardedHost, Sample, Setting
from framework.model.guard_record import Acted, Began, Decided, EndedAt, Entry, JobNoted, Noted

HOST = GuardedHost(2, 20.0, 100.0, disk_mbs=200.0)
BE = Setting(True, 1, 0, 0.0, True, frozenset({"stream"}), disk_mbs=80.0)


def entries() -> list[Entry]:
    def decided(time_s: float, latency: float | None, setting: Setting) -> Decided:
        sample = Sample(time_s, latency, 50.0, 0.5, 1.0 if setting.running else 0.0, lc_disk_mbs=100.0,
                        jobs=("stream",))  # fmt: skip
        return Decided(time_s, sample, Decision(setting, {"cores": "why <b>"}))

    return [
        Began(
            0.0,
            "2026-11-28T00:00:00+00:00",
            "shop <i>",
            "tailor",
            {"aim": 0.8},
            HOST,
            0.95,
            False,
            ("pressure: no PSI",),
        ),
        decided(0.0, None, Setting()),
        decided(1.0, 10.0, BE),
        Acted(1.0, "cores", "cpuset", "0-1", "1", "why <b>"),
        JobNoted(1.5, 1, "sort", "attempt 1 began"),
        decided(2.0, 25.0, Setting()),
        decided(3.0, None, Setting()),
        Noted(3.0, "the engine does not answer"),
        decided(5.0, 12.0, BE),
        EndedAt(6.0, "stopped", 3.0, 1.0, ("cpuset of x",)),
    ]


def written(home: Path, some: list[Entry]) -> str:
    audits = Audits(home)
    directory = audits.new()
    writer = AuditWriter(directory, lambda entry: None)
    for entry in some:
        writer.add(entry)
    writer.close()
    return directory.name
