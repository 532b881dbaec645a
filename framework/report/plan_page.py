"""The HTML page of a plan of machines: one file, nothing loaded from elsewhere."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from framework.capacity.answers import Law, PlanAnswer, Plans
from framework.report import plan_plots
from framework.report.figure import labelled
from framework.report.page import ENVIRONMENT
from framework.report.plan_words import (
    advice,
    assumption,
    ceiling_in_words,
    decisive_in_words,
    gain_in_words,
    horizon,
    not_considered,
    number_of,
    plan_name,
    power_in_words,
    range_in_words,
    refusals,
    state_in_words,
)


def plan_page(answer: PlanAnswer) -> str:
    """Write the page of a plan."""
    return ENVIRONMENT.get_template("plan.html").render(plan_contents(answer))


def plan_contents(answer: PlanAnswer) -> dict[str, Any]:
    """Return the variables of a plan's template."""
    plans = answer.plans
    return {
        "answer": answer,
        "plans": plans,
        "need": plans.need,
        "cheapest": plans.plans[0] if plans.plans else None,
        "current": [] if plans.current is None else state_in_words(plans.current, plans.currency),
        "figures": [(title, text, Markup(drawing)) for title, text, drawing in _figures(answer)],
        "said": [line for line in (horizon(plans), not_considered(plans), assumption(plans), power_of(plans)) if line],
        "advice": "" if plans.plans else advice(plans),
        "number_of": number_of,
        "decisive": [decisive_in_words(kind, law) for kind, law in laws_of(answer).items() if law.cheapest is not None],
        "refusals": refusals(plans).most_common(),
        "prices": sorted({(plan.machine.priced_on, plan.machine.source) for plan in plans.plans}),
        "plan_name": plan_name,
        "range_in_words": range_in_words,
        "gain_in_words": gain_in_words,
        "ceilings": [ceiling_in_words(kind, law) for kind, law in laws_of(answer).items() if law.ceiling is not None],
    }


def power_of(plans: Plans) -> str:
    """Return the power of the cheapest plan in words; empty without one."""
    return power_in_words(plans.plans[0]) if plans.plans else ""


def laws_of(answer: PlanAnswer) -> dict[str, Law]:
    """Return the laws by the kind of requests."""
    return {"reads": answer.reads} | ({} if answer.writes is None else {"writes": answer.writes})


def _figures(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Draw (title, a sentence, SVG) of every figure that there are data for."""
    plans = answer.plans
    law = plan_plots.laws_plot(laws_of(answer))
    figures = [
        (
            "One node",
            "Points: measured, with 95 % of their spread. Band: 95 % of where laws that fit them lead, "
            "with what no law has.",
            labelled(law) if answer.modelled else law,
        )
    ]
    if plans.plans:
        cheapest = plans.plans[0]
        figures.append(("Costs", "Of each plan; they have the machines that are enough.", plan_plots.costs_plot(plans)))
        figures.append(("What binds", "Of the cheapest plan.", plan_plots.resources_plot(cheapest)))
        if len(cheapest.services) > 1:
            text = "Each node of the plan runs its share of all of them."
            figures.append(("Services", text, plan_plots.services_plot(cheapest)))
        if cheapest.years:
            text = (
                f"Rates, bytes and clients grow. A line ends where more than {plans.most_nodes:,} nodes are needed, "
                "or no number is enough."
            )
            figures.append(("Growth", text, plan_plots.years_plot(plans)))
        if any(row.change is not None for row in plans.sensitivity):
            text = "Of the cheapest plan, whichever type that then is."
            figures.append(("Sensitivity", text, plan_plots.sensitivity_plot(plans)))
        if any(row.cost_per_hour is not None for row in plans.availability):
            text = "What other copies and failure domains would cost."
            figures.append(("Availability", text, plan_plots.availability_plot(plans)))
    if answer.media is not None and any(row.memory or row.disk for row in answer.media.rows):
        text = "The cheapest plan with all records in memory, and with disks and a cache."
        figures.append(("Memory against disks", text, plan_plots.media_plot(answer.media, plans.currency)))
    return figures
