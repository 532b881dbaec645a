"""Numbers of energy as words, the same on the terminal and on the page."""

from __future__ import annotations

import math

from framework.energy.answers import EnergyAnswer, Figure, PhaseAnswer, RunAnswer
from framework.study.energy_verdict import EnergyRatio

PHASES = {"baseline": "nothing runs", "idle": "idle", "run": "load"}
UNITS = ((1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def in_words(figure: Figure | None, unit: str, *, of_source: bool = True) -> str:
    """Write a figure with the interval of its windows and, where it differs, that of the source."""
    if figure is None:
        return "not known"
    if figure.value < 0:
        return "not shown: less than idle power varies by"
    factor, prefix = scale(figure.value)
    text = f"{figure.value / factor:.3g} {prefix}{unit}"
    if math.isfinite(figure.low):
        text += f" [{figure.low / factor:.3g}, {figure.high / factor:.3g}]"
    if of_source and figure.source_low != figure.source_high:
        text += f" (source: {figure.source_low / factor:.3g} to {figure.source_high / factor:.3g})"
    return text


def scale(value: float) -> tuple[float, str]:
    """Return the factor and the prefix of the unit in which a number is between 1 and 1,000, where there is one."""
    size = abs(value)
    if size == 0 or not math.isfinite(size):
        return 1.0, ""
    return next(((factor, prefix) for factor, prefix in UNITS if size >= factor), UNITS[-1])


def label_in_words(answer: EnergyAnswer) -> str:
    """Say where the joules come from."""
    said = {
        "measured": "measured by this machine's meter",
        "estimated": "ESTIMATED from the CPUs' utilisation, not measured",
        "recorded": "RECORDED before, not measured now",
    }[answer.label]
    return f"joules are {said}: {answer.source}, {answer.about}"


def phase_name(phase: PhaseAnswer) -> str:
    """Name a phase, with its rate."""
    name = PHASES[phase.phase]
    return name if phase.rate_rps is None else f"{name}, {phase.rate_rps:g} requests/s"


def idle_in_words(run: RunAnswer) -> str:
    """Say what the idle part of a request's joules is."""
    of = {
        "baseline": "what the machine takes when nothing of the application runs",
        "idle": "what the machine takes with the application up, without load",
        "power curve": "what the power curve says of an idle machine",
    }
    return of.get(run.idle_of, "not known")


def constants_in_words(answer: EnergyAnswer) -> str:
    """Say which P, IP, N and F the numbers per I/O were computed with."""
    constants = answer.constants
    if constants.peak_w is None:
        return f"no joules per I/O: {constants.why}"
    shares = ", ".join(f"{share:.2g}" for share in constants.idle_shares.values())
    of = f" ({constants.peak_of})" if constants.peak_of else ""
    clock = "not known (it cancels)" if constants.frequency_hz is None else f"{constants.frequency_hz / 1e9:.2f} GHz"
    return f"P = {constants.peak_w:.4g} W{of}, IP = {shares}, N = {constants.cores}, F = {clock}"


def left_out_in_words(answer: EnergyAnswer) -> list[str]:
    """Say which windows do not count, and why."""
    return [
        f"{phase.left_out} of {phase.left_out + phase.windows} windows left out ({phase_name(phase)}): "
        + "; ".join(phase.reasons)
        for phase in answer.phases
        if phase.left_out
    ]


def ratio_in_words(ratio: EnergyRatio, first: str, second: str) -> str:
    """Say how a quantity of the second measurement compares with the first's."""
    text = (
        f"{ratio.quantity} at {ratio.rate_rps:g} requests/s: {second} takes {ratio.value:.3f} times what {first} takes"
    )
    if ratio.without:
        return f"{text}; not comparable: in {ratio.without} more rounds one of them took less than idle power varies by"
    if not math.isfinite(ratio.high):
        return f"{text}; {ratio.pairs} pairs are too few for an interval"
    shown = "" if ratio.shown else "; no difference shown"
    return f"{text} [{ratio.low:.3f}, {ratio.high:.3f}], {ratio.pairs} pairs{shown}"
