"""Lists of problems: for development and, held out, for claims.  Written before Tailor's optimizer was tuned on them.

A problem is a line of text: "microservices SEED SERVICES SHAPE DIMENSIONS", "SUITE FUNCTION DIMENSIONS INSTANCE", or
"table TABLE OBJECTIVE ..." of measured configurations, whose files the caller reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from optimizer.benchmark.coco import Coco
from optimizer.benchmark.microservices import Microservices
from optimizer.benchmark.problem import Problem
from optimizer.errors import InvalidInput

DEVELOPMENT = (
    "microservices 1 5 chain 20",
    "microservices 2 8 fan-out 20",
    "microservices 3 10 chain 50",
    "microservices 4 12 fan-out 50",
    "microservices 5 20 fan-out 100",
    "bbob-mixint 1 20 1",
    "bbob-mixint 3 20 2",
    "bbob-mixint 8 40 1",
    "bbob-mixint 15 10 1",
    "bbob-mixint 21 20 1",
    "bbob 1 20 1",
    "bbob 8 10 1",
    "bbob 20 20 1",
)

HELD_OUT = (
    "microservices 101 6 chain 20",
    "microservices 102 7 fan-out 30",
    "microservices 103 9 fan-out 40",
    "microservices 104 11 chain 50",
    "microservices 105 14 chain 60",
    "microservices 106 16 fan-out 80",
    "microservices 107 22 chain 110",
    "microservices 108 28 fan-out 150",
    "bbob-mixint 2 10 3",
    "bbob-mixint 6 20 3",
    "bbob-mixint 10 40 3",
    "bbob-mixint 12 20 4",
    "bbob-mixint 17 40 4",
    "bbob-mixint 22 10 5",
    "bbob-mixint 24 80 3",
    "bbob 2 20 3",
    "bbob 6 10 3",
    "bbob 11 40 3",
    "bbob 17 20 4",
    "bbob 23 10 5",
)

APPLICATIONS = (  # for development, too: those of the first list, and other seeds and shapes
    *(line for line in DEVELOPMENT if line.startswith("microservices")),
    "microservices 11 6 fan-out 30",
    "microservices 12 9 chain 40",
    "microservices 13 14 fan-out 70",
    "microservices 14 25 chain 130",
)

# Measured tables, split by system before anything was tuned on them: the systems' names (sqlite, mongodb, mysql,
# backup, storm, vp9, sorter, x264) in the order of their SHA-256, the first four to develop on.
TABLES = (
    "table SQL_AllMeasurements Performance",
    "table SS-V Performance",
    "table SS-V Cpu",
    "table SS-O Performance",
    "table SS-O Cpu",
    "table SS-T Performance",
    "table SS-T Benchmark-cpu",
)
HELD_OUT_TABLES = (
    "table SS-D Throughput",
    "table SS-D Latency",
    "table SS-E Throughput",
    "table SS-E Latency",
    "table SS-I Throughput",
    "table SS-I Latency",
    "table SS-Q Performance",
    "table SS-Q Energy",
    "table SS-Q Cpu",
    "table SS-R Performance",
    "table SS-R Cpu",
    "table SS-H Energy",
    "table SS-H Inv_runtime",
    "table SS-U Benchmark-iperf",
    "table SS-U Benchmark-cpu",
    "table X264_AllMeasurements Performance",
)
VARIATIONS = ("noise 3", "noise 25", "default good", "default bad", "answers rows")


def _varied(lines: Sequence[str]) -> tuple[str, ...]:
    """Return each table's first objective under each variation."""
    first = {line.split()[1]: line for line in reversed(lines)}
    return tuple(f"{line} {variation}" for line in reversed(first.values()) for variation in VARIATIONS)


LISTS: Mapping[str, Sequence[str]] = {
    "development": DEVELOPMENT,
    "applications": APPLICATIONS,
    "held-out": HELD_OUT,
    "tables": TABLES,
    "tables-varied": _varied(TABLES),
    "held-out-tables": HELD_OUT_TABLES,
    "held-out-tables-varied": _varied(HELD_OUT_TABLES),
}


def fingerprint(lines: Sequence[str]) -> str:
    """Return 16 hexadecimal digits of a list's SHA-256."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def problem(line: str) -> Problem:
    """Return the problem that a line names.  Raises InvalidInput, LibraryMissing."""
    kind, *rest = line.split()
    try:
        if kind == "microservices":
            seed, services, shape, dimensions = rest
            if shape in ("chain", "fan-out"):
                return Microservices(int(seed), int(services), shape, int(dimensions))
        elif kind in ("bbob", "bbob-mixint"):
            function, size, instance = (int(number) for number in rest)
            return Coco(kind, function, size, instance)
    except ValueError as error:
        raise InvalidInput(f"no such problem: {line!r} ({error})") from error
    raise InvalidInput(f"no such problem: {line!r}; see optimizer.benchmark.lists")
