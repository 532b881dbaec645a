"""The power sources of this machine: lines of ``tailor doctor``."""

from __future__ import annotations

from collections.abc import Iterator

from framework.model import Finding
from framework.testbeds.host.power.opening import every_source

REMEDY = "joules are estimated without a meter; a meter's own readings: --power csv:FILE, prometheus:URL#QUERY"


def power_sources() -> Iterator[Finding]:
    """Yield each power source that needs no argument: what its joules rest on, or what is missing for it."""
    for source in every_source():
        try:
            what = f"power source {source.name}"
            if lack := source.missing():
                yield Finding(what, "limited", lack, REMEDY)
            else:
                yield Finding(what, "ok", f"{source.label}: {source.about()}")
        finally:
            source.close()
