"""The HTML page of a measurement of energy: one file, nothing loaded from elsewhere."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from framework.energy.answers import EnergyAnswer
from framework.report import energy_plots
from framework.report.energy_words import (
    constants_in_words,
    idle_in_words,
    in_words,
    label_in_words,
    left_out_in_words,
    phase_name,
)
from framework.report.figure import labelled
from framework.report.page import ENVIRONMENT


def energy_page(answer: EnergyAnswer) -> str:
    """Write the page of an answer."""
    return ENVIRONMENT.get_template("energy.html").render(energy_contents(answer))


def energy_contents(answer: EnergyAnswer) -> dict[str, Any]:
    """Return the variables of the template."""
    return {
        "answer": answer,
        "figures": [(title, text, Markup(drawing)) for title, text, drawing in _figures(answer)],
        "joules_in_words": label_in_words(answer),
        "constants": constants_in_words(answer),
        "left_out": left_out_in_words(answer),
        "in_words": in_words,
        "phase_name": phase_name,
        "idle_in_words": idle_in_words,
    }


def _figures(answer: EnergyAnswer) -> list[tuple[str, str, str]]:
    """Draw (title, a sentence, SVG) of every figure that there are data for."""
    figures: list[tuple[str, str, str]] = []
    if any(phase.windows for phase in answer.phases):
        text = "Of all CPUs; the states add up to the whole."
        rows = [(phase_name(phase), phase.shares) for phase in answer.phases if phase.windows]
        figures.append(("Where the time went", text, energy_plots.states_plot(rows)))
    if any(phase.watts is not None for phase in answer.phases):
        text = f"Of {answer.scope}."
        figures.append(("Power", text, _marked(answer, energy_plots.watts_plot(answer))))
    for run in answer.runs:
        if run.idle_j is not None and any(row.active_j is not None for row in run.services):
            text = f"Services have the active part by their CPU time; idle is {idle_in_words(run)}."
            title = f"Joules of a request at {run.rate_rps:g} requests/s"
            figures.append((title, text, _marked(answer, energy_plots.requests_plot(run))))
    costs = [(f"{run.rate_rps:g} requests/s", run.io) for run in answer.runs if run.io is not None and run.io.emio]
    if costs:
        names, of_runs = [name for name, _ in costs], [cost for _, cost in costs]
        text = f"Of the services' CPU time and the machine's idle time; {constants_in_words(answer)}."
        drawn = _marked_peak(answer, energy_plots.emio_plot(names, of_runs))
        figures.append(("Joules of a million I/O operations", text, drawn))
        text = "The same with the time outside the kernel alone, and with the kernel's."
        drawn = _marked_peak(answer, energy_plots.layers_plot(names, of_runs))
        figures.append(("What the operating system adds", text, drawn))
    return figures


def _marked(answer: EnergyAnswer, drawing: str) -> str:
    """Return a figure of joules with their label, where they are not measured."""
    return drawing if answer.label == "measured" else labelled(drawing, f"{answer.label}, not measured")


def _marked_peak(answer: EnergyAnswer, drawing: str) -> str:
    """Return a figure of joules by P and IP with a label, where P is not known exactly, whatever the power source."""
    return labelled(drawing, "P estimated, not measured") if answer.constants.peak_error else drawing
