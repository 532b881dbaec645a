"""The options of ``tune``, each declared here and nowhere else; see framework.model.options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from framework.model.identity import StudyId
from framework.model.options import Option

DEFAULT_OPTIMIZER = "tailor"  # the winner of the benchmark: experiments/bench/optimizers
BY_TRACES = ("critical-path", "variability", "path+variability", "soft")  # reductions that need spans
REDUCTIONS = ("none", "critical-path", "variability", "bottlenecks", "path+variability", "soft", "screening")
PLACEMENTS = ("none", "also", "only")
PRIORS = ("none", "twin")
OVER = ("worst", "mean")
MOST_AUTO = 50  # configurations of a search that stops by itself
MOST_SMALLER = 3  # recommendations with fewer changes; each further one could pass by chance


@dataclass(frozen=True, slots=True)
class TuneRequest:
    """A request for a study; None means the value of the application or of the protocol.

    ``given``: names of the options that somebody wrote, which a quick study leaves as they are.
    """

    application: Path
    optimizer: Annotated[
        str,
        Option("How to search: one that `tailor optimizers` lists", "search", label="optimizer"),
    ] = DEFAULT_OPTIMIZER
    testbed: Annotated[
        str,
        Option(
            "docker, swarm (the nodes of TAILOR_SWARM), twin (the model in twin.json), one of a plug-in, or auto: the "
            "twin only where no engine answers",
            "measurement",
            label="testbed",
        ),
    ] = "auto"
    testbeds: Annotated[
        tuple[str, ...],
        Option(
            "Several testbeds that measure side by side, each with an instance where its kind has several",
            "measurement",
            written="such as twin:1,twin:2",
            commas=True,
            longest=2000,
        ),
    ] = ()
    iterations: Annotated[
        int | Literal["auto"],
        Option(
            f"Configurations to try, besides the default; auto: 10 to {MOST_AUTO}, until another one is expected to "
            "gain less than a quarter of the verdict's noise",
            "search",
            low=1,
            high_over_http=10_000,
            written="or 0 to compare named configurations only",
            label="configurations, or auto",
        ),
    ] = 15
    repetitions: Annotated[
        int,
        Option("Repetitions of each configuration", "measurement", low=1, high_over_http=100, label="repetitions"),
    ] = 3
    window_s: Annotated[
        float,
        Option(
            "Measured window",
            "measurement",
            unit="s",
            low=1,
            high_over_http=3600,
            flag="--duration",
            written="such as 20s",
            label="window",
        ),
    ] = 20.0
    pairs: Annotated[
        int,
        Option(
            "Interleaved pairs of the verdict, at least 2; 0: none, and no claim",
            "verdict",
            low=0,
            high_over_http=200,
            label="pairs of the verdict",
        ),
    ] = 10
    rate_rps: Annotated[
        float | None,
        Option(
            "Requests per second",
            "measurement",
            unit="requests/s",
            low=1,
            high_over_http=100_000,
            flag="--rate",
            absent="the application's",
            label="requests/s",
        ),
    ] = None
    rates: Annotated[
        tuple[float, ...],
        Option(
            "Several rates at which each configuration is measured, increasing; its value is relative to the default's "
            "at the same rate",
            "measurement",
            unit="requests/s",
            low=1,
            high_over_http=100_000,
            written="such as 100,200,300",
            label="several rates, such as 100,200,300",
        ),
    ] = ()
    over: Annotated[
        Literal["worst", "mean"],
        Option(
            "One value of several rates: the worst ratio to the default, or the geometric mean of the ratios",
            "search",
            choices=OVER,
            label="of several rates, improve the",
        ),
    ] = "worst"
    weights: Annotated[
        tuple[float, ...],
        Option("Weights of the rates in the mean", "search", above=0, written="such as 1,2,1", absent="all equal"),
    ] = ()
    seed: Annotated[
        int,
        Option(
            "Seed of the optimizer, of the arrivals and of the order of pairs",
            "search",
            low=0,
            high_over_http=2**31 - 1,
            label="seed",
        ),
    ] = 1
    quick: Annotated[
        bool,
        Option(
            "8 configurations, 2 x 10 s, 6 pairs and their small version: a first look, labelled so; on a model the "
            "full protocol with 60; options that are given beside it win",
            "search",
            label="quick: a first look (8 configurations, 2 x 10 s, 6 pairs; on a model 60 in full)",
        ),
    ] = False
    only: Annotated[
        tuple[str, ...],
        Option(
            "Services, and parameters as service.parameter, to tune", "space", absent="all", label="parameters to tune"
        ),
    ] = ()
    without: Annotated[
        tuple[str, ...],
        Option("Services, and parameters as service.parameter, to leave alone", "space"),
    ] = ()
    allow_weaker: Annotated[
        tuple[str, ...],
        Option("Each service.parameter to tune though it weakens durability, consistency or security", "space"),
    ] = ()
    warmup_s: Annotated[
        float,
        Option(
            "Warm-up before each window; longer if the default needs it",
            "measurement",
            unit="s",
            low=0,
            high_over_http=600,
            flag="--warm-up",
        ),
    ] = 5.0
    minimal: Annotated[
        int,
        Option(
            "Recommendations with less changed to try: the few changes that matter, in every pair of the verdict; "
            "after an improvement, fewer still",
            "verdict",
            low=0,
            high=MOST_SMALLER,
        ),
    ] = 2
    initial: Annotated[
        Literal["default", "random"] | Path,
        Option(
            "Where the optimizer starts",
            "search",
            choices=("default", "random"),
            written="or a configuration FILE",
        ),
    ] = "default"
    rivals: Annotated[
        tuple[Path, ...],
        Option("Configuration files that the verdict compares with, too", "verdict", flag="--versus"),
    ] = ()
    target_ms: Annotated[
        float | None,
        Option(
            "Stop when the objective is this low, confirmed",
            "search",
            unit="ms",
            above=0,
            flag="--target",
            written="such as 20ms",
        ),
    ] = None
    time_limit_s: Annotated[
        float | None,
        Option(
            "Time that the study may take: frozen into a number of configurations",
            "search",
            unit="s",
            above=0,
            flag="--time-limit",
            written="such as 30m",
        ),
    ] = None
    drift_every: Annotated[
        int,
        Option(
            "Measure the default again once per so many trials; 0: never",
            "measurement",
            low=0,
            high_over_http=1000,
        ),
    ] = 5
    incremental: Annotated[
        bool,
        Option("Recreate only what changed (not equal state; labelled)", "measurement"),
    ] = False
    trace: Annotated[
        bool,
        Option("Load without tracing (for experiments)", "measurement", flag="--no-trace", hidden=True),
    ] = True
    reduce: Annotated[
        str,
        Option(
            "Tune only what the default's traces point at, or what an earlier study found; soft: priors, no cut",
            "space",
            choices=REDUCTIONS,
        ),
    ] = "none"
    bottlenecks: Annotated[
        Path | tuple[str, ...],
        Option("Services that the reduction bottlenecks keeps", "space", within="reduce"),
    ] = ()
    screening: Annotated[
        StudyId | None,
        Option("The study whose importances the reduction screening cuts by", "space", within="reduce"),
    ] = None
    thresholds: Annotated[
        Mapping[str, float],
        Option("Thresholds of the reduction: share, path_ms, cv, importance", "space", flag="--threshold"),
    ] = field(default_factory=dict)
    objective: Annotated[
        str | None,
        Option(
            "Quantity to make small in the place of the application's objective; throughput is made large",
            "search",
            written="such as p99 or throughput",
            absent="the application's",
        ),
    ] = None
    subject_to: Annotated[
        tuple[str, ...],
        Option(
            "Limits that the best has to keep, such as 'p99 <= 40' or 'cpu <= 1.5'",
            "search",
            absent="the application's",
        ),
    ] = ()
    also: Annotated[
        tuple[str, ...],
        Option(
            "Further quantities to keep low, with their Pareto set",
            "search",
            absent="the application's",
        ),
    ] = ()
    catalogues: Annotated[
        tuple[Path, ...],
        Option(
            "Machine types with prices, for the quantity cost: money per hour for the CPU time and memory that the "
            "services use, on the cheapest machines",
            "search",
            flag="--catalogue",
        ),
    ] = ()
    power: Annotated[
        str | None,
        Option(
            "Watts of the machine, idle and full (120,350), for the quantity energy: joules per request for the CPU "
            "time that the services use",
            "search",
            absent="by its processor",
            longest=100,
        ),
    ] = None
    history: Annotated[
        tuple[StudyId | Path, ...],
        Option(
            "Studies whose results it starts from, as ratios to their defaults",
            "search",
            written="or a FILE of such results",
        ),
    ] = ()
    transfer: Annotated[
        tuple[StudyId, ...],
        Option(
            "Studies of other applications: what they tell of parameters of the same types of servers is a prior here",
            "search",
        ),
    ] = ()
    options: Annotated[
        Mapping[str, Any],
        Option("Options of the optimizer", "search", flag="--option"),
    ] = field(default_factory=dict)
    limits: Annotated[
        Mapping[str, float],
        Option("Limits on disturbance, such as stolen_cpu=0.1 (see the application schema)", "measurement"),
    ] = field(default_factory=dict)
    prior: Annotated[
        str,
        Option(
            "twin: start from what the application's twin says of thousands of configurations",
            "search",
            choices=PRIORS,
        ),
    ] = "none"
    placement: Annotated[
        str,
        Option(
            "also: tune on which CPUs each service runs, too; only: nothing but that",
            "space",
            choices=PLACEMENTS,
        ),
    ] = "none"
    profile: Annotated[
        Path | None,
        Option("Place by what `tailor profile` measured of the application", "space", kept=True),
    ] = None
    domains: Annotated[
        str,
        Option(
            "What services are placed on: CPU sets, how many or which (0-3/4-7), or hosts; auto: hosts on a testbed "
            "that has several, else 2 CPU sets",
            "space",
            longest=2000,
        ),
    ] = "auto"
    pin: Annotated[
        tuple[str, ...],
        Option("Where solvers of placements have to leave a service: service=CPUs", "space", command="place"),
    ] = ()
    apart: Annotated[
        tuple[str, ...],
        Option("Two services that solvers of placements keep apart: service:service", "space", command="place"),
    ] = ()
    given: frozenset[str] = field(default=frozenset(), compare=False)
