"""Energy on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from framework.cli.terminal import escape
from framework.energy.answers import EnergyAnswer, RunAnswer
from framework.report.energy_words import (
    constants_in_words,
    idle_in_words,
    in_words,
    label_in_words,
    left_out_in_words,
    phase_name,
    ratio_in_words,
)
from framework.study.energy_verdict import EnergyComparison
from framework.use_cases.energy_comparison import EnergyScaling

SHOWN = ("user", "system", "irq", "softirq", "steal", "guest", "iowait", "idle")
MOST_SERVICES = 12


def show(output: Console, answer: EnergyAnswer) -> None:
    """Show an answer: where its joules come from, the phases, then what a request and an I/O operation cost."""
    colour = "green" if answer.label == "measured" else "yellow"
    output.print(f"[{colour}]{escape(label_in_words(answer))}[/]", soft_wrap=True)
    for line in (*answer.notes, *left_out_in_words(answer)):
        output.print(f"[yellow]{escape(line)}[/]", soft_wrap=True)
    output.print(_phases(answer))
    for run in answer.runs:
        _show_run(output, answer, run)


def _phases(answer: EnergyAnswer) -> Table:
    states = [name for name in SHOWN if any(phase.shares.get(name, 0.0) >= 0.0005 for phase in answer.phases)]
    table = Table(box=None, pad_edge=False)
    table.add_column("phase", overflow="fold")
    for column in ("windows", "watts", *states):
        table.add_column(column, justify="right", overflow="fold")
    for phase in answer.phases:
        watts = "not known" if phase.watts is None else f"{phase.watts.value:.3g}"
        shares = (f"{phase.shares.get(state, 0.0):.1%}" for state in states)
        table.add_row(phase_name(phase), f"{phase.windows}", escape(watts), *shares)
    return table


def _show_run(output: Console, answer: EnergyAnswer, run: RunAnswer) -> None:
    lines = [
        f"a request at {run.rate_rps:g} requests/s: {in_words(run.whole_j, 'J')} of {answer.scope}",
        f"  idle: {in_words(run.idle_j, 'J', of_source=False)}, {idle_in_words(run)}",
        f"  the application: {in_words(run.application_j, 'J')}",
    ]
    for line in lines:
        output.print(escape(line), soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("service", "user [us]", "kernel [us]", "of the busy time", "active J per request"):
        table.add_column(column, justify="left" if column == "service" else "right", overflow="fold")
    for row in run.services[:MOST_SERVICES]:
        table.add_row(
            escape(row.service),
            f"{row.user_us:,.0f}",
            f"{row.system_us:,.0f}",
            f"{row.share:.1%}",
            escape(in_words(row.active_j, "J", of_source=False)),
        )
    output.print(table)
    if len(run.services) > MOST_SERVICES:
        output.print(f"and {len(run.services) - MOST_SERVICES} more services (--json and the page have all)")
    for name, part in run.others_j.items():
        output.print(escape(f"  {name}: {in_words(part, 'J', of_source=False)}"), soft_wrap=True)
    _show_io(output, answer, run)


def _show_io(output: Console, answer: EnergyAnswer, run: RunAnswer) -> None:
    if run.io is None:
        output.print(f"{run.no_io} ({answer.level}): no cycles and joules per I/O; see those per request")
        return
    if run.io.cpio is not None and run.io.user_cpio is not None and run.io.cpio_idle is not None:
        output.print(
            f"an I/O operation of 512 bytes ({run.io.level}), services: cpio {run.io.cpio.value:,.0f} cycles "
            f"({run.io.user_cpio.value:,.0f} outside the kernel), cpio_idle {run.io.cpio_idle.value:,.0f}",
            soft_wrap=True,
        )
    for share, emio in run.io.emio.items():
        output.print(escape(f"  a million of them (emio), IP {share}: {in_words(emio, 'J')}"), soft_wrap=True)
    output.print(escape(f"  {constants_in_words(answer)}"), soft_wrap=True)


def show_comparison(output: Console, comparison: EnergyComparison) -> None:
    """Show the ratios of two measurements."""
    for note in comparison.notes:
        output.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)
    for ratio in comparison.ratios:
        output.print(escape(ratio_in_words(ratio, comparison.first, comparison.second)), soft_wrap=True)
    for page in comparison.pages:
        output.print(f"page: {page}", soft_wrap=True)


def show_scaling(output: Console, scaling: EnergyScaling) -> None:
    """Show cycles per I/O on rising numbers of cores, and what they lead to."""
    table = Table(box=None, pad_edge=False)
    for column in ("cores", "cpio", "in the kernel", "requests/s", "busy"):
        table.add_column(column, justify="right")
    for point in scaling.points:
        row = (
            f"{point.cpio:,.0f}",
            f"{point.system_cpio:,.0f}",
            f"{point.requests_per_s:,.1f}",
            f"{point.utilisation:.0%}",
        )
        table.add_row(str(point.cores), *row)
    output.print(table)
    for note in scaling.notes:
        output.print(f"[yellow]{escape(note)}[/]", soft_wrap=True)
    for projection in scaling.projections:
        output.print(
            f"{projection.law} law: in the kernel {projection.cycles:,.0f} [{projection.low:,.0f}, "
            f"{projection.high:,.0f}] on {projection.cores:,} cores, {projection.times:.1f} times one core's; "
            f"{projection.beyond:.0f} times the most cores that were measured",
            soft_wrap=True,
        )
    if scaling.figure is not None:
        output.print(f"figure: {scaling.figure}", soft_wrap=True)
