"""Measurements of one node: the rate at which an application's knee is on so many cores, and what its requests take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from optimizer.space import Value

Arm = Literal["default", "tuned"]
DEFAULT: Arm = "default"
TUNED: Arm = "tuned"
Kind = Literal["requests", "reads", "writes"]
MIX: Kind = "requests"
READS: Kind = "reads"
WRITES: Kind = "writes"
"""Requests that a sweep sends: the workload's whole mix, or those of it that count as reads or as writes."""


@dataclass(frozen=True, slots=True)
class NodePoint:
    """An application at its knee on so many cores.

    ``run``: number of this sweep, from 0, where equal ones are made.  ``cores``: physical cores that the services may
    use.  ``generator_cores``: cores of these that the load generator kept busy; 0 where it had cores of its own.

    ``knee_rps``: highest rate that held, None where none did; ``above_rps``: lowest rate above it that did not.

    At the knee, per request: ``cpu_s``: service -> CPU seconds.  ``generator_s``: CPU seconds of the generator.
    ``received_bytes``, ``sent_bytes``: of the service that clients call, its calls to others included.  After the
    load: ``memory_bytes``: service -> memory.  Empty or None: not known.  ``statement``: of the sweep.
    """

    arm: Arm
    kind: Kind
    cores: int
    run: int
    knee_rps: float | None
    above_rps: float | None
    generator_cores: float = 0.0
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    generator_s: float | None = None
    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    received_bytes: float | None = None
    sent_bytes: float | None = None
    statement: str = ""


@dataclass(frozen=True, slots=True)
class NodeMeasurement:
    """Sweeps of one application and their conditions.

    ``processor``, ``machine_cores``: of the machine, or of the model's host.  ``limit_ms``: of p95, that ends a sweep.
    ``refinements``: bisections towards the knee.  ``kinds``: kind -> names of the workload's requests, empty for all.
    ``configurations``: arm -> values that differ from the defaults of each size.  ``most_cores``: arm -> service ->
    cores that it can use however many there are, such as 1 for a server with one thread; without services that have no
    such limit.  ``operations``: requests of a need in one of the load, above 1 where it sends bursts.  ``closed_loop``:
    the load generator sends as fast as replies come, so that each window has the most that can be answered.  ``study``:
    whose best configuration is the tuned one; empty where none is.
    """

    application: str
    content_hash: str
    testbed: str
    modelled: bool
    processor: str
    machine_cores: int
    warmup_s: float
    window_s: float
    factor: float
    refinements: int
    seed: int
    limit_ms: float
    kinds: Mapping[str, tuple[str, ...]]
    configurations: Mapping[str, Mapping[str, Value]]
    most_cores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    operations: float = 1.0
    closed_loop: bool = False
    study: str = ""
    at: str = ""
    points: tuple[NodePoint, ...] = ()

    def asked(self, other: NodeMeasurement) -> NodeMeasurement:
        """Return this measurement without the arms and kinds that ``other`` does not have."""
        return replace(
            self,
            kinds={kind: names for kind, names in self.kinds.items() if kind in other.kinds},
            configurations={arm: values for arm, values in self.configurations.items() if arm in other.configurations},
            most_cores={arm: most for arm, most in self.most_cores.items() if arm in other.configurations},
            study=other.study,
            points=tuple(p for p in self.points if p.kind in other.kinds and p.arm in other.configurations),
        )

    def of(self, arm: Arm, kind: Kind) -> tuple[NodePoint, ...]:
        return tuple(point for point in self.points if (point.arm, point.kind) == (arm, kind))


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """A request to measure a node.

    ``study``: whose best configuration is measured beside the default.  ``reads``, ``writes``: names of the workload's
    requests that count as such and are swept apart; without both, the whole mix is.  ``cores``: sizes; empty for a
    choice.  ``window_s``: None for WINDOW_S, or that of quick sweeps.  ``start_rps``: first rate of the first sweep,
    None for the application's.  ``limit_ms``: of p95, None for LIMIT_MS, so high that it is passed where the
    application no longer keeps up: a plan itself keeps cores spare for latency.  ``operations``: see NodeMeasurement;
    None for what the application says.

    An application that names a ``closed_loop`` is measured there, unless ``reads``, ``start_rps`` or ``limit_ms`` ask
    for rates.
    """

    application: Path
    study: str = ""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    cores: tuple[int, ...] = ()
    runs: int = 1
    warmup_s: float = 5.0
    window_s: float | None = None
    factor: float = 1.25
    refinements: int = 3
    start_rps: float | None = None
    maximum_rps: float = 10_000_000.0
    limit_ms: float | None = None
    operations: float | None = None
    seed: int = 1
    limits: Mapping[str, float] = field(default_factory=dict)
    testbed: str = "auto"
    quick: bool = False


WINDOW_S = 10.0
LIMIT_MS = 500.0
QUICK_NODE: Mapping[str, Any] = {"warmup_s": 3.0, "window_s": 6.0, "factor": 1.4, "refinements": 2}
"""Quick sweeps: a first look, a few minutes for two cores."""
