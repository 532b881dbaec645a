"""From a request to the plan of a study; every value is checked."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import framework
from framework.bench import TestbedKind
from framework.config.bottlenecks_file import load_bottlenecks
from framework.config.configuration_file import load_configuration
from framework.config.outcomes import quantity
from framework.config.space import search_space
from framework.config.twin_file import twin_path
from framework.errors import FieldError, FieldName, InputError, UnknownName
from framework.model import (
    Application,
    Limits,
    Machine,
    Objective,
    ServiceType,
    Study,
    StudyPlan,
    StudyState,
    TuneRequest,
)
from framework.model.decisions import ImportedResults, SpaceEdit, StudyDecisions, Thresholds, Transfer
from framework.model.options import options_of
from framework.model.tune_request import BY_TRACES, MOST_AUTO, OVER, PLACEMENTS, PRIORS, REDUCTIONS
from framework.objective.rates import Rates
from framework.placement.domains import Domains
from framework.placement.space import (
    load_profile,
    placement_alone,
    with_placement,
    with_rules,
)
from framework.study.objective import check_objective, limits_on_outcomes, prices_of, quantities, with_objective
from optimizer.registry import names as optimizer_names
from optimizer.space import SearchSpace, Value

# A first look: what it sets where nobody says otherwise.
QUICK: Mapping[str, Any] = {
    "iterations": 8, "repetitions": 2, "warmup_s": 3.0, "window_s": 10.0, "pairs": 6, "minimal": 1, "drift_every": 0,
}  # fmt: skip
# It works on a busy machine too: these limits allow disturbance that a full study rejects.
QUICK_LIMITS = {"stolen_cpu": 0.15, "generator_lag": 0.5, "p95_disagreement": 0.1}
QUICK_ON_MODEL = 60  # configurations
MOST_TESTBEDS = 64  # of one study
LONGEST_TESTBED = 32  # characters of a name: as the store keeps the study's first
MOST_RATES = 8  # of one study: each costs a warm-up and a window in every repetition


def quick(request: TuneRequest) -> TuneRequest:
    """Return the request as a quick study: a first look in about ten minutes, labelled wherever it is shown.

    What the request says itself (``given``) stays.
    """
    values = {name: value for name, value in QUICK.items() if name not in request.given}
    return replace(request, **values, quick=True, limits={**QUICK_LIMITS, **request.limits})


def quick_on_model(request: TuneRequest) -> TuneRequest:
    """Return the request as a quick study on a model, where the full protocol with more configurations is quick too."""
    full = TuneRequest(request.application)
    values = {name: getattr(full, name) for name in QUICK}
    values |= {"iterations": QUICK_ON_MODEL, "drift_every": 0}  # a model does not drift
    return replace(
        request,
        **{name: value for name, value in values.items() if name not in request.given},
        quick=False,
        limits={name: limit for name, limit in request.limits.items() if QUICK_LIMITS.get(name) != limit},
    )


def space_of(
    application: Application,
    request: TuneRequest,
    types: Mapping[str, ServiceType],
    machine: Machine,
    domains_on: Callable[[str, bool], Domains],
) -> SearchSpace:
    """Return the search space of a request on a machine.  ``domains_on``: says what services are placed on, and, where
    that is asked, what calls between domains cost.

    Raises InputError, UnknownName.
    """
    if request.placement not in PLACEMENTS:
        raise UnknownName(FieldName("placement"), request.placement, PLACEMENTS)
    if request.profile is not None and request.placement == "none":
        raise InputError(
            FieldName("profile"), " says where services are best placed; allowed: with ", FieldName("placement"),
            " also or only",
        )  # fmt: skip
    profile = None if request.profile is None else load_profile(request.profile, application)
    if request.placement == "none" and (request.pin or request.apart):
        raise InputError(
            FieldName("pin"), " and ", FieldName("apart"), " say where services may be placed; allowed: with ",
            FieldName("placement"), " also or only",
        )  # fmt: skip
    if request.placement == "only":
        domains = domains_on(request.domains, profile is not None)
        alone = placement_alone(application, domains, profile, request.only)
        return with_rules(alone, domains, request.pin, request.apart)
    space = search_space(
        application,
        types,
        cores=machine.cores,
        memory_mib=machine.memory_mib,
        only=request.only,
        allow_weaker=request.allow_weaker,
        without=request.without,
    )
    if request.placement == "none":
        return space
    domains = domains_on(request.domains, profile is not None)
    both = with_placement(space, domains, profile)
    return with_rules(both, domains, request.pin, request.apart)


def check_request(request: TuneRequest, application: Application) -> None:
    """Raise UnknownName or InputError, with field, found and allowed value, where a request cannot be planned."""
    if request.optimizer not in optimizer_names():
        raise UnknownName("optimizer", request.optimizer, optimizer_names(), field="optimizer")
    _check_reduction(request)
    for noun, field, names, known in (
        ("limit", "limits", request.limits, {limit.name for limit in fields(Limits)}),
        ("threshold", "thresholds", request.thresholds, {threshold.name for threshold in fields(Thresholds)}),
    ):
        for name in names:
            if name not in known:
                raise UnknownName(noun, name, known, field=field)
    if not application.traced and request.reduce in BY_TRACES:
        why = "has no tracing" if application.tracing is None else f"is driven by {application.generator}, untraced"
        raise InputError(
            FieldName("reduce"), f" {request.reduce}: {application.name} {why}, so there is no critical path; "
            "allowed: none, bottlenecks:FILE, screening:STUDY (importance from an earlier study)",
        )  # fmt: skip
    if request.prior not in PRIORS:
        raise UnknownName("prior", request.prior, PRIORS, field="prior")
    if request.prior != "none" and not twin_path(application.directory).exists():
        raise InputError(
            FieldName("prior"), f" twin: {application.directory} has no twin.json; make one: tailor twin calibrate"
        )
    if request.prior != "none" and request.transfer:
        raise InputError(
            FieldName("transfer"), ": found ", FieldName("prior"), f" {request.prior} too; allowed: one of them"
        )
    check_objective(request, application)
    application = with_objective(application, request.objective or "")
    objective = application.objective
    if request.history and (request.subject_to or request.also or objective.subject_to or objective.also):
        raise InputError(
            FieldName("history"),
            ": results from elsewhere say nothing of limits on the outcome or further objectives",
        )
    _check_ranges(request)
    _check_auto(request, objective)
    _check_rates(request, application)


def check_testbeds(request: TuneRequest, kinds: Sequence[TestbedKind], application: Application) -> None:
    """Raise InputError where several testbeds cannot measure one study.  ``kinds``: of the testbeds, in their order."""
    names, field = request.testbeds, FieldName("testbeds")
    if not names:
        return
    if len(set(names)) < len(names) or len(names) > MOST_TESTBEDS:
        raise FieldError("testbeds", ",".join(names), f"at most {MOST_TESTBEDS}, each once")
    if "testbed" in request.given:
        raise InputError(field, ": found ", FieldName("testbed"), " too; allowed: one of them")
    for name in names:
        if len(name) > LONGEST_TESTBED:
            raise FieldError("testbeds", name, f"names of at most {LONGEST_TESTBED} characters")
    if len({kind.modelled for kind in kinds}) > 1:
        raise FieldError(
            "testbeds", ",".join(names), "all measured, or all modelled: a model's values are no machine's"
        )
    used = Counter(engine for kind in kinds for engine in set(kind.engines()))
    if any(count > 1 for count in used.values()):
        raise FieldError("testbeds", ",".join(names), "testbeds without a common engine: they would disturb each other")
    objective = application.objective
    alone = {
        "rates": request.rates, "target_ms": request.target_ms, "also": request.also or objective.also,
        "placement": request.placement != "none",
    }  # fmt: skip
    for other, is_asked in alone.items():
        if is_asked:
            raise InputError(field, ": not with ", FieldName(other), ", which a study on one testbed can have")


def _check_auto(request: TuneRequest, objective: Objective) -> None:
    """Raise InputError where a search cannot stop by itself."""
    if isinstance(request.iterations, str):
        if request.iterations != "auto":
            raise FieldError("iterations", request.iterations, "a number, or auto")
        if request.also or objective.also:
            raise InputError(
                FieldName("iterations"), " auto: judges the gain of one objective; allowed with ", FieldName("also"),
                ": a number",
            )  # fmt: skip


def _check_rates(request: TuneRequest, application: Application) -> None:
    """Raise InputError where several rates cannot be measured, or what else is asked for has no sense with them."""
    if request.over not in OVER:
        raise FieldError("over", request.over, ", ".join(OVER))
    if not request.rates:
        if request.over != "worst" or request.weights:
            raise InputError(
                FieldName("weights" if request.weights else "over"), ": allowed only with ", FieldName("rates")
            )
        return
    if request.weights and request.over != "mean":
        raise InputError(FieldName("weights"), ": allowed only with ", FieldName("over"), " mean")
    if application.loop == "closed":
        raise InputError(
            FieldName("rates"), f": {application.generator} sends requests when replies came, at no rate that could be "
            "set; allowed: with a generator that keeps a rate",
        )  # fmt: skip
    Rates(request.rates, request.over, request.weights or (1.0,) * len(request.rates))
    option = options_of(TuneRequest)["rates"].option
    for rate in request.rates:
        if not option.contains(rate):
            raise FieldError("rates", rate, option.range())
    if len(request.rates) > MOST_RATES:
        raise FieldError("rates", f"{len(request.rates)} rates", f"at most {MOST_RATES}")
    if request.rate_rps is not None:
        raise InputError(FieldName("rate_rps"), ": not allowed with ", FieldName("rates"), ", which name all of them")
    if request.target_ms is not None:
        raise InputError(
            FieldName("target_ms"), ": not allowed with ", FieldName("rates"),
            ": the value over several rates is a ratio to the default, and no time",
        )  # fmt: skip
    falling = [term.quantity for term in application.objective.terms if term.weight < 0]
    if falling:
        raise InputError(
            FieldName("rates"), f": the objective maximises {', '.join(falling)}, so that it may be 0 or below and has "
            "no ratio to the default's; allowed: an objective whose weights are all positive",
        )  # fmt: skip


def _check_ranges(request: TuneRequest) -> None:
    """Raise InputError where a number is outside the range that is declared for it."""
    least = {
        "iterations": 0 if request.rivals else 1,  # 0: only the comparison
        "pairs": 2 if request.pairs else 0,  # 0: no verdict, so that the study claims nothing
    }
    for name, declared in options_of(TuneRequest).items():
        value, low = getattr(request, name), least.get(name)
        if isinstance(value, int | float) and not declared.option.contains(value, low):
            raise FieldError(name, value, declared.option.range(low))


def _check_reduction(request: TuneRequest) -> None:
    if request.reduce not in REDUCTIONS:
        raise UnknownName("reduction", request.reduce, REDUCTIONS, field="reduce")
    given = {"bottlenecks": bool(request.bottlenecks), "screening": request.screening is not None}
    if any(is_given != (kind == request.reduce) for kind, is_given in given.items()):
        others = ", ".join(kind for kind in REDUCTIONS if kind not in given)
        raise FieldError("reduce", request.reduce, f"bottlenecks:FILE, screening:STUDY, {others}")


def study_plan(
    request: TuneRequest,
    application: Application,
    space: SearchSpace,
    screened: Mapping[str, float] | None = None,
) -> StudyPlan:
    """Return the plan of a study; read the rivals' files and check them against ``space``.  Raises InputError.

    ``screened``: each service's importance in the study that the request names.
    """
    return StudyPlan(
        application=str(application.directory),
        optimizer=request.optimizer,
        optimizer_options=dict(request.options),
        iterations=MOST_AUTO if request.iterations == "auto" else request.iterations,
        auto=request.iterations == "auto",
        repetitions=request.repetitions,
        warmup_s=request.warmup_s,
        window_s=request.window_s,
        rate_rps=max(request.rates) if request.rates else request.rate_rps or application.workload.rate_rps,
        seed=request.seed,
        pairs=request.pairs,
        only=request.only,
        allow_weaker=request.allow_weaker,
        initial=str(request.initial),
        incremental=request.incremental,
        target_ms=request.target_ms,
        time_limit_s=request.time_limit_s,
        drift_every=request.drift_every,
        quick=request.quick,
        trace=request.trace and application.traced,
        loop=application.loop,
        rivals=_rivals(request.rivals, space),
        limits=dict(request.limits),
        reduce=request.reduce,
        thresholds=dict(request.thresholds),
        bottlenecks=_bottlenecks(request, space),
        screened=dict(screened or {}),
        subject_to=tuple(map(str, limits_on_outcomes(request.subject_to) or application.objective.subject_to)),
        also=quantities(request.also) or application.objective.also,
        prices=prices_of(request, application.objective),
        minimal=request.minimal,
        objective=quantity(request.objective or ""),
        prior=request.prior,
        rates=request.rates,
        over=request.over,
        weights=request.weights,
        prepare_requests=application.prepare_requests,
        testbeds=request.testbeds,
    )


def first_decisions(
    request: TuneRequest,
    space: SearchSpace,
    history: tuple[ImportedResults, ...],
    transfer: Transfer | None,
    inert: Collection[str],
) -> StudyDecisions:
    """Return the decisions that a study begins with; read the file of its start.  Raises FileError, InputError.

    ``inert``: parameters without an effect in the testbed's model.
    """
    initial = load_configuration(request.initial, space).to_dict() if isinstance(request.initial, Path) else None
    return StudyDecisions(initial, tuple(name for name in inert if name in space), history, transfer)


def _bottlenecks(request: TuneRequest, space: SearchSpace) -> tuple[str, ...]:
    """Return the services that are named as bottlenecks.  Raises FileError, UnknownName."""
    if isinstance(request.bottlenecks, Path):
        return load_bottlenecks(request.bottlenecks, space)
    for service in request.bottlenecks:
        if service not in space.groups:
            raise UnknownName("bottleneck", service, space.groups, field="bottlenecks")
    return tuple(dict.fromkeys(request.bottlenecks))


def edited(study: Study, space: SearchSpace, request: TuneRequest, last: int) -> StudyDecisions:
    """Return a study's decisions with an edit to ``space`` after trial ``last``.  Raises InputError."""
    if study.verdict is not None or study.state in (StudyState.COMPLETED, StudyState.RUNNING):
        raise InputError(
            f"study {study.id} is {study.state}; only a study that was stopped before its verdict can be edited "
            "(a new one can start from its results: ", FieldName("history"), ")",
        )  # fmt: skip
    before = SearchSpace.from_dict(study.space)
    if before == space:
        raise InputError(f"study {study.id}: the space would stay as it is ({len(space)} parameters)")
    edit = SpaceEdit(last, before.default().to_dict(), request.only, request.allow_weaker)
    return study.decisions.edited(edit)


def _rivals(paths: Sequence[Path], space: SearchSpace) -> dict[str, Mapping[str, Value]]:
    """Return name -> configuration of files, named by the file, or by its directory where ``tailor best`` wrote it."""
    rivals: dict[str, Mapping[str, Value]] = {}
    for path in paths:
        name = path.resolve().parent.name if path.stem == "configuration" else path.stem
        if name in rivals or name in ("default", "best"):
            raise InputError(
                FieldName("rivals"),
                f": found a second configuration called {name!r}; allowed: another name for {path}",
            )
        rivals[name] = load_configuration(path, space).to_dict()
    return rivals


def expected_windows(plan: StudyPlan) -> int:
    """Return how many windows a study measures if nothing fails and nothing stops it early."""
    drift = plan.iterations // plan.drift_every if plan.drift_every else 0
    # Not counted: runs without each risky change, and recommendations tried only after an improvement.
    repetitions = (1 + plan.iterations + drift) * plan.repetitions + plan.pairs * plan.arms_of_verdict
    return repetitions * len(plan.measured_rates)


def versions() -> dict[str, str]:
    """Return package -> version of the software, besides the application, that a study's numbers depend on."""
    names = ("numpy", "scipy", "scikit-learn", "scikit-optimize")
    return {"tailor": framework.__version__, "python": platform.python_version()} | {
        name: version(name) for name in names
    }
