"""Words and tables for the terminal; reads durations such as ``20s``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from framework.config.durations import seconds
from framework.errors import InputError
from framework.model import Estimate, Study, StudyId, Trial, Verdict
from framework.model.identity import is_study_id
from framework.model.tune_request import REDUCTIONS
from framework.report.summary import Level, Summary
from framework.study.observations import left_out
from optimizer.space import SearchSpace

__all__ = [
    "escape",
    "estimate",
    "history",
    "initial",
    "limits",
    "opening",
    "reduction",
    "seconds",
    "summary",
    "trials_table",
    "values",
]


EXPLAINED = 120  # columns of a terminal from which a table has room for sentences
FEW_WINDOWS = 10  # of the study, about whose differences nothing is said
MODELLED = "[yellow]MODELLED: no application runs; every number below comes from {}.[/]"


def limits(pairs: list[str], option: str = "--limits") -> dict[str, float]:
    """Numbers given as ``name=value``.  Raises InputError; unknown names are refused where a study is made."""
    found = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            found[name] = float(text)
        except ValueError:
            raise InputError(f"{option}: found {pair!r}; allowed: name=value, a number") from None
    return found


def values(pairs: list[str], option: str) -> dict[str, Any]:
    """``name=value`` pairs; a value is JSON where it can be, else text.  Raises InputError."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InputError(f"{option}: found {pair!r}; allowed: name=value")
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found


def initial(text: str) -> Literal["default", "random"] | Path:
    """Where an optimizer starts: what is neither word is a file."""
    known: dict[str, Literal["default", "random"]] = {"default": "default", "random": "random"}
    return known.get(text) or Path(text)


def history(texts: list[str]) -> tuple[StudyId | Path, ...]:
    """Studies and files of results: here, and nowhere behind this, a text may be either."""
    return tuple(StudyId(one) if is_study_id(one) and not Path(one).is_file() else Path(one) for one in texts)


def reduction(text: str) -> dict[str, Any]:
    """``KIND``, ``bottlenecks:FILE`` or ``screening:STUDY`` as fields of a TuneRequest.  Raises InputError."""
    kind, _, argument = text.partition(":")
    if kind == "bottlenecks" and argument:
        return {"reduce": kind, "bottlenecks": Path(argument)}
    if kind == "screening" and argument:
        return {"reduce": kind, "screening": StudyId(argument)}
    if argument and kind in REDUCTIONS:
        raise InputError(f"--reduce: found {text!r}; allowed: a kind alone, bottlenecks:FILE, screening:STUDY")
    return {"reduce": kind}


def estimate(value: Estimate, unit: str = "ms") -> str:
    """``12.3 ms [11.8, 12.9]``; an open side is written as such."""
    sides = [f"{side:.2f}" if math.isfinite(side) else "open" for side in (value.low, value.high)]
    if sides == ["open", "open"]:
        return f"{value.value:.2f} {unit} (no interval: too few repetitions)"
    return f"{value.value:.2f} {unit} [{sides[0]}, {sides[1]}]"


def opening(console: Console, study: Study) -> None:
    """What is about to happen, on which machine."""
    plan, machine = study.effective_plan, study.machine
    if study.modelled:
        console.print(MODELLED.format(escape(study.model)))
    label = "QUICK study: a first look, not a result to publish. " if plan.quick else ""
    state = "only changed containers are recreated" if plan.incremental else "every repetition from equal state"
    console.print(
        f"study [bold]{study.id}[/]: {label}{study.directory}, "
        f"{len(study.space['parameters'])} parameters, {plan.optimizer}, "
        f"{plan.iterations} configurations x {plan.repetitions} x {plan.window_s:g} s at {plan.rate_rps:g} requests/s "
        f"({state}), verdict of {plan.pairs} pairs; {machine.cores} cores, {machine.engine}",
        soft_wrap=True,
    )
    if study.decisions.inert:
        many = len(study.decisions.inert)
        console.print(f"{many} of the {len(study.space['parameters'])} parameters mean nothing to the model")
    if study.decisions.history:
        sources = ", ".join(known.source for known in study.decisions.history)
        usable, reasons = left_out(study.decisions.history, SearchSpace.from_dict(study.space))
        console.print(f"starts from {usable} results of {sources}", soft_wrap=True)
        for reason, count in reasons.items():
            console.print(f"left out, {count} times: {reason}", soft_wrap=True)


def summary(console: Console, found: Summary) -> None:
    """The end of a study: default, best, what changed, the verdict, and what to know about the numbers."""
    study = found.study
    console.print()
    if study.modelled:
        console.print(MODELLED.format(escape(study.model)))
    if study.plan.quick:
        console.print("[yellow]QUICK study: a first look, not a result to publish.[/]")
    for name, level in (("default", found.default), ("best", found.best)):
        if level is not None:
            modelled = " modelled" if study.modelled else ""
            console.print(f"{name:8} {found.objective}{modelled} {_level(level, found.unit)}")
    if found.changed and found.refuted:
        many = sum(len(services) for one in found.changed for services in one.values.values())
        console.print(f"the best configuration differs in {many} parameters; the report lists them")
    elif found.changed:
        table = Table(title="what the best configuration changes", title_justify="left", box=None, pad_edge=False)
        table.add_column("parameter", no_wrap=True)
        for column in ("default", "best"):
            table.add_column(column, overflow="fold")
        explained = console.width >= EXPLAINED  # the report always says it
        if explained:
            table.add_column("what it is for", overflow="fold")
        for one in found.changed:
            row = (one.parameter, one.default, one.text)
            table.add_row(*map(escape, row), *([one.description] if explained else []))
        console.print(table)
    console.print(f"[bold]{found.headline}[/]", soft_wrap=True)
    equal = found.equal_speed
    if equal is not None and equal.verdict is not None:
        console.print(f"At equal speed of the machine: {_gain(equal.verdict)}", soft_wrap=True)
    for name, verdict in study.rivals.items():
        versus = name if " to " in name else f"{name} to best"
        also = f"; at equal speed {_gain(equal.rivals[name])}" if equal is not None and name in equal.rivals else ""
        console.print(f"{versus}: {_gain(verdict)}{also}", soft_wrap=True)
    for line in outcome_lines(found):
        console.print(line, soft_wrap=True)
    for note in notes(found):
        console.print(f"note: {note}", soft_wrap=True)


def _gain(verdict: Verdict) -> str:
    gain, low, high = (100 * x for x in (verdict.gain.value, verdict.gain.low, verdict.gain.high))
    return f"gain {gain:+.1f} % [{low:+.1f}, {high:+.1f}] ({verdict.statement})"


def outcome_lines(found: Summary) -> list[str]:
    """Limits on the outcome, further objectives and the Pareto set, a line each."""
    said = []
    for one in found.outcomes:
        kept = {True: "kept", False: "[red]not kept[/]", None: ""}[one.kept]
        numbers = f"default {_number(one.default)}, best {_number(one.best)}"
        said.append(f"{one.limit or one.quantity}: {numbers}" + (f" ({kept})" if kept else ""))
    for point in found.front:
        others = ", ".join(
            f"{name} {_number(value)}" for name, value in zip(found.study.plan.also, point.others, strict=True)
        )
        said.append(f"Pareto set: trial {point.trial} ({point.purpose}): {found.objective} {point.value:.2f}, {others}")
    return said


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def notes(found: Summary) -> list[str]:
    """What a reader must know to trust the numbers."""
    said = []
    if found.reduction is not None:
        cut = found.reduction
        services = len(cut.kept) + len(cut.removed)
        said.append(
            f"reduction {cut.kind}: {len(cut.kept)} of {services} services and {cut.parameters} of "
            f"{cut.parameters_before} parameters were tuned; the report says why"
        )
    if found.unused_priors:
        said.append(f"{found.study.plan.optimizer} takes no priors: the soft reduction changed nothing for it")
    if found.smaller is not None:
        said.append(found.smaller)
    silent = set(found.study.decisions.inert)
    without = sum(f"{change.service}.{change.parameter}" in silent for change in found.changes)
    if without:
        said.append(f"{without} of the {len(found.changes)} changes mean nothing to the model: they come from chance")
    failed = {state: count for state, count in found.trials.items() if state in ("failed", "infeasible")}
    if failed:
        said.append("trials without a value: " + ", ".join(f"{count} {state}" for state, count in failed.items()))
    if found.invalid_repetitions:
        many = "s" if found.invalid_repetitions > 1 else ""
        said.append(f"{found.invalid_repetitions} repetition{many} did not count and had to be measured again")
    if found.equal_speed is not None and found.equal_speed.sensitivity.windows > FEW_WINDOWS:
        speed = found.equal_speed.sensitivity
        said.append(
            f"the machine's speed (the processor time of the load generator's ticks) explains "
            f"{100 * speed.explained:.0f} % of how windows of one configuration differ"
        )
    if found.low_confidence:
        said.append("some windows hold fewer than 1,000 requests: their p95 is low-confidence")
    if found.study.plan.prior != "none":
        said.append("the search started from what the application's twin says; the verdict is measured all the same")
    if found.study.plan.limits:
        limits = ", ".join(f"{name} {value:g}" for name, value in found.study.plan.limits.items())
        said.append(f"limits on disturbance other than the application's own: {limits}")
    if found.standins:
        said.append("stand-in images ran (built from Debian packages, true versions): " + ", ".join(found.standins))
    if found.overhead is not None:
        said.append(
            f"Tailor's own work (render, read back, read, evaluate) took {100 * found.overhead:.1f} % of a repetition"
        )
    return said


def trials_table(trials: list[Trial], objective: str) -> Table:
    """One row per trial."""
    table = Table(box=None, pad_edge=False)
    for column in ("trial", "purpose", "state", objective, "+-", "repetitions", "reason"):
        table.add_column(column, overflow="fold")
    for trial in trials:
        table.add_row(
            str(trial.number),
            trial.purpose + (f" {trial.label} {trial.pair + 1}" if trial.pair is not None else ""),
            trial.state,
            "" if trial.value is None else f"{trial.value:.2f}",
            "" if trial.standard_error is None else f"{100 * trial.standard_error:.0f} %",
            str(len(trial.measurements)),
            escape(trial.reason.splitlines()[0] if trial.reason else ""),
        )
    return table


def _level(level: Level, unit: str) -> str:
    source = f"fresh, {level.value.count} repetitions" if level.fresh else f"trial {level.trial}"
    return f"{estimate(level.value, unit)} ({source})"
