"""Load generators of others: how they send requests, and how Tailor is told to run one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Loop = Literal["open", "paced", "closed"]
"""How requests are sent.

open: when they are due, whatever became of others.  paced: at a rate, as long as replies come in time.  closed: each
when the reply to an earlier one came.
"""


@dataclass(frozen=True, slots=True)
class ExternalGenerator:
    """A load generator of somebody else: its loop, the words that call it, whether it needs a script.

    ``cpus``: hardware threads that it can use, called so; None for all.  ``whole_rates``: it takes whole
    requests/s only.
    """

    loop: Loop
    command: tuple[str, ...]
    needs_script: bool = True
    cpus: int | None = None
    whole_rates: bool = False


EXTERNAL_GENERATORS: Mapping[str, ExternalGenerator] = {
    "h2load": ExternalGenerator("paced", ("h2load", "--h1"), needs_script=False, cpus=1),
    "jmeter": ExternalGenerator("closed", ("jmeter",)),
    "k6": ExternalGenerator("open", ("k6", "run")),
    "key-value": ExternalGenerator("closed", ("key-value-load",), needs_script=False),
    "locust": ExternalGenerator("closed", ("locust",), cpus=1),
    "vegeta": ExternalGenerator("open", ("vegeta", "attack"), needs_script=False),
    "wrk2": ExternalGenerator("open", ("wrk",), needs_script=False, cpus=2, whole_rates=True),
}
"""Load generators of others that Tailor runs, by name."""

OMISSION = (
    "so that time spent waiting in a stall is not measured (coordinated omission: Tene, How NOT to Measure Latency, "
    "2013; Schroeder et al., Open Versus Closed, NSDI 2006)"
)
LOOPS_IN_WORDS: Mapping[Loop, str] = {
    "closed": f"closed loop: each request waits for the reply to an earlier one, {OMISSION}; the workload's rate is "
    "not kept, and a slower configuration gets fewer requests",
    "paced": f"partly closed loop: a connection that waits for a reply sends nothing, {OMISSION}",
}
"""For people: what latencies of a loop that is not open leave out."""


@dataclass(frozen=True, slots=True)
class ExternalLoad:
    """How a load generator of somebody else is run.

    ``image``: of its container; empty: it is a command of this machine.  ``script``: a path below the application's
    directory, empty for none; the files of its directory go with it.  ``command``: the words that Tailor's options
    follow; empty: those that the generator is usually called by.  ``path``: requested where there is no script.
    ``users``: simulated users, connections or workers.  ``operations``: requests of a client in one of the load, which
    may be a burst.
    """

    image: str = ""
    script: str = ""
    command: tuple[str, ...] = ()
    path: str = "/"
    users: int = 50
    operations: float = 1.0
