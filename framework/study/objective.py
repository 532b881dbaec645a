"""The objective of a study: the application's, with what a request changes of it, and the prices and watts it counts
cost and energy by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from framework.config.machine_catalogue import load_catalogue
from framework.config.outcomes import QUANTITIES, is_quantity, outcome_constraint, quantity
from framework.energy.power_catalogue import curve_in, curve_of
from framework.errors import FieldError, FieldName, InputError, MissingPrerequisite
from framework.model import Application, Machine, Objective, OutcomeConstraint, StudyPlan, Term, TuneRequest
from framework.model.capacity import MachinePrice
from framework.model.energy import PowerCurve
from framework.objective.cost import cheapest_prices
from framework.ports.energy import EnergyMeter


def check_objective(request: TuneRequest, application: Application) -> None:
    """Raise InputError for an objective that is no quantity, or that no configuration can change."""
    if request.objective is None:
        return
    if not is_quantity(request.objective):
        raise FieldError("objective", request.objective, QUANTITIES)
    if request.objective == "throughput" and application.loop != "closed":
        raise InputError(
            FieldName("objective"),
            f" throughput: {application.generator} sends requests at the workload's rate, whatever the configuration; "
            "allowed: with a load generator in a closed loop (key-value, locust, jmeter), which "
            "application.yaml names, or one that closed_loop there leads to",
        )


def with_objective(application: Application, name: str) -> Application:
    """Return the application with a quantity as its objective; with an empty name as it is."""
    if not name:
        return application
    term = Term(quantity(name), -1.0 if name == "throughput" else 1.0)
    return replace(application, objective=replace(application.objective, terms=(term,)))


def planned(application: Application, plan: StudyPlan) -> Application:
    """Return the application as a study measures it: with the plan's limits on disturbance and on the outcome."""
    application = with_objective(application, plan.objective)
    objective = replace(
        application.objective,
        subject_to=tuple(outcome_constraint(text) for text in plan.subject_to),
        also=plan.also,
        prices=plan.prices,
        power=plan.power,
    )
    return replace(application, limits=replace(application.limits, **plan.limits), objective=objective)


def limits_on_outcomes(texts: Sequence[str]) -> tuple[OutcomeConstraint, ...]:
    """Read the limits that a request sets on other quantities.  Raises InputError."""
    try:
        return tuple(outcome_constraint(text) for text in texts)
    except InputError as error:
        raise InputError(FieldName("subject_to"), f": {error}") from None


def quantities(names: Sequence[str]) -> tuple[str, ...]:
    """Read the further quantities that a request minimises.  Raises FieldError."""
    for name in names:
        if not is_quantity(name):
            raise FieldError("also", name, QUANTITIES)
    return tuple(quantity(name) for name in names)


def refuse_cost(request: TuneRequest, objective: Objective, testbed: str) -> None:
    """Refuse cost as a quantity on a testbed that does not tell the memory of services.  Raises InputError."""
    for field in _naming("cost", request, objective):
        raise InputError(
            FieldName(field),
            f": found cost, which counts the memory of services, and the testbed {testbed} does not tell it; "
            "allowed: cost on a testbed that does, such as docker; on this one mean, median, throughput, cpu, errors, "
            "or a quantile such as p95",
        )


def prices_of(request: TuneRequest, objective: Objective) -> tuple[MachinePrice, ...]:
    """Return the prices that a study counts cost by; read the catalogues.  Raises InputError.

    They are kept in the plan, so that a study that goes on later counts as before.
    """
    if _naming("cost", request, objective) and not request.catalogues:
        raise InputError(
            "cost needs prices of machines: found no ", FieldName("catalogues"), "; allowed: a file of machine types, "
            "such as examples/machines.yaml",
        )  # fmt: skip
    machines = [machine for path in request.catalogues for machine in load_catalogue(path)]
    currencies = sorted({machine.currency for machine in machines})
    if len(currencies) > 1:
        raise FieldError(
            "catalogues", f"prices in {', '.join(currencies)}", "prices in one currency, as none is converted"
        )
    prices = cheapest_prices(machines)
    if machines and not prices:
        raise FieldError("catalogues", f"{len(machines)} types", "at least one with price, cores and memory")
    return prices


def power_of(
    request: TuneRequest, objective: Objective, machine: Machine, meters: Callable[[str], EnergyMeter] | None = None
) -> PowerCurve | None:
    """Return the power of the machine that a study counts energy by; None where it counts none.

    It is what the request says, else what ``meters``, of the testbed, know of this machine, else of its processor's
    name.  It is kept in the plan, so that a study that goes on later counts as before.  Raises InputError where nothing
    is known.
    """
    named = _naming("energy", request, objective)
    if request.power is not None:
        return curve_in(request.power)
    if not named:
        return None
    known = (None if meters is None else _told_by(meters)) or curve_of(machine.cpu, machine.cores)
    if known is None:
        raise InputError(
            f"energy needs the power of the machine, and nothing is known of {machine.cpu}: found no ",
            FieldName("power"), "; allowed: watts, idle and full, such as 120,350",
        )  # fmt: skip
    return known


def _told_by(meters: Callable[[str], EnergyMeter]) -> PowerCurve | None:
    try:
        meter = meters("auto")
    except MissingPrerequisite:  # no source works here
        return None
    try:
        return meter.curve()
    finally:
        meter.close()


def _naming(quantity_: str, request: TuneRequest, objective: Objective) -> list[str]:
    """Return the fields by which a study counts a quantity, whether the request or its application names it."""
    limits = limits_on_outcomes(request.subject_to) or objective.subject_to
    named = {
        "objective": [term.quantity for term in objective.terms],
        "subject_to": [limit.quantity for limit in limits],
        "also": quantities(request.also) or objective.also,
    }
    return [field for field, names in named.items() if quantity_ in names]
