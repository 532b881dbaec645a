"""Words and tables for the terminal, and what is typed there, such as ``20s``, as values."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from framework.config.durations import seconds
from framework.errors import InputError
from framework.model import DOCKER, LOOPS_IN_WORDS, Estimate, Study, StudyId, Trial, Verdict
from framework.model.identity import is_study_id
from framework.model.tune_request import REDUCTIONS
from framework.report.rates import rate_lines, rates_in_words
from framework.report.recommendation import MOST_LINES, RecommendedChange
from framework.report.search_model import model_lines
from framework.report.summary import Level, Summary
from framework.report.transfer import transfer_use
from framework.study.observations import left_out
from optimizer.space import SearchSpace

__all__ = [
    "escape",
    "estimate",
    "history",
    "initial",
    "integer",
    "limits",
    "numbers",
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
    """Read numbers given as ``name=value``.  Raises InputError; unknown names are refused where a study is made."""
    numbers = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        try:
            numbers[name] = float(text)
        except ValueError:
            raise InputError(f"{option}: found {pair!r}; allowed: name=value, a number") from None
    return numbers


def numbers(texts: list[str], option: str) -> tuple[float, ...]:
    """Read numbers with commas between them, such as ``100,200,300``.  Raises InputError."""
    try:
        return tuple(float(part) for text in texts for part in text.split(","))
    except ValueError:
        typed = ",".join(texts)
        raise InputError(f"{option}: found {typed!r}; allowed: numbers with commas between them") from None


def integer(text: str, option: str, words: Sequence[str]) -> int | str:
    """Read an integer, or one of some words.  Raises InputError."""
    try:
        return text if text in words else int(text)
    except ValueError:
        raise InputError(f"{option}: found {text!r}; allowed: an integer, or {', '.join(words)}") from None


def values(pairs: list[str], option: str) -> dict[str, Any]:
    """Read ``name=value`` pairs; a value is JSON where it can be, else text.  Raises InputError."""
    read: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InputError(f"{option}: found {pair!r}; allowed: name=value")
        try:
            read[name] = json.loads(text)
        except json.JSONDecodeError:
            read[name] = text
    return read


def initial(text: str) -> Literal["default", "random"] | Path:
    """Read where an optimizer starts; a text that is neither word is a file."""
    known: dict[str, Literal["default", "random"]] = {"default": "default", "random": "random"}
    return known.get(text) or Path(text)


def history(texts: list[str]) -> tuple[StudyId | Path, ...]:
    """Read studies and files of results; only on the command line a text may be either."""
    return tuple(StudyId(text) if is_study_id(text) and not Path(text).is_file() else Path(text) for text in texts)


def reduction(text: str) -> dict[str, Any]:
    """Read ``KIND``, ``bottlenecks:FILE`` or ``screening:STUDY`` as fields of a TuneRequest.  Raises InputError."""
    kind, _, argument = text.partition(":")
    if kind == "bottlenecks" and argument:
        return {"reduce": kind, "bottlenecks": Path(argument)}
    if kind == "screening" and argument:
        return {"reduce": kind, "screening": StudyId(argument)}
    if argument and kind in REDUCTIONS:
        raise InputError(f"--reduce: found {text!r}; allowed: a kind alone, bottlenecks:FILE, screening:STUDY")
    return {"reduce": kind}


def estimate(value: Estimate, unit: str = "ms") -> str:
    """Write an estimate, such as ``12.3 ms [11.8, 12.9]``; an open side is written as such."""
    sides = [f"{side:.2f}" if math.isfinite(side) else "open" for side in (value.low, value.high)]
    if sides == ["open", "open"]:
        return f"{value.value:.2f} {unit} (no interval: too few repetitions)"
    return f"{value.value:.2f} {unit} [{sides[0]}, {sides[1]}]"


def opening(console: Console, study: Study) -> None:
    """Print the plan of a study and its machine, before it runs."""
    plan, machine = study.effective_plan, study.machine
    if study.modelled:
        console.print(MODELLED.format(escape(study.model)))
    label = "QUICK study: a first look, not a result to publish. " if plan.quick else ""
    most = "at most " if plan.auto else ""
    state = "only changed containers are recreated" if plan.incremental else "every repetition from equal state"
    console.print(
        f"study [bold]{study.id}[/]: {label}{study.directory}, "
        f"{len(study.space['parameters'])} parameters, {plan.optimizer}, "
        f"{most}{plan.iterations} configurations x {plan.repetitions} x {plan.window_s:g} s at {rates_in_words(plan)} "
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
    taken = transfer_use(study, ())
    for sentence in taken.sentences if taken is not None else ():
        console.print(sentence, markup=False, soft_wrap=True)


def summary(console: Console, summary: Summary) -> None:
    """Print the end of a study: default, best, what changed, the verdict, and what to know about the numbers."""
    study = summary.study
    console.print()
    if study.modelled:
        console.print(MODELLED.format(escape(study.model)))
    if study.plan.quick:
        console.print("[yellow]QUICK study: a first look, not a result to publish.[/]")
    for name, level in (("default", summary.default), ("best", summary.best)):
        if level is not None:
            modelled = " modelled" if study.modelled else ""
            console.print(f"{name:8} {summary.objective}{modelled} {_level(level, summary.unit)}")
    lines = summary.recommended
    if lines and summary.refuted:
        many = sum(len(line.services) for line in lines if not line.derived)
        console.print(f"the best configuration differs in {many} parameters; the report lists them")
    elif lines:
        console.print(_recommendation(lines, console.width >= EXPLAINED))
        if summary.rest:
            console.print(f"{escape(summary.rest)}; the report lists them", soft_wrap=True)
        if any(len(line.services) > 1 for line in lines[:MOST_LINES]):
            console.print("the report names the services", soft_wrap=True)
    console.print(f"[bold]{summary.headline}[/]", soft_wrap=True)
    for line in rate_lines(summary.verdict) if summary.verdict is not None else ():
        console.print(line, soft_wrap=True)
    equal = summary.equal_speed
    if equal is not None and equal.verdict is not None:
        console.print(f"At equal speed of the machine: {_gain(equal.verdict)}", soft_wrap=True)
    for name, verdict in study.rivals.items():
        versus = name if " to " in name else f"{name} to best"
        also = f"; at equal speed {_gain(equal.rivals[name])}" if equal is not None and name in equal.rivals else ""
        console.print(f"{versus}: {_gain(verdict)}{also}", soft_wrap=True)
    for line in outcome_lines(summary):
        console.print(line, soft_wrap=True)
    for line in model_lines(summary.model, study):
        console.print(line, soft_wrap=True, markup=False)
    for note in notes(summary):
        console.print(f"note: {note}", soft_wrap=True)


def _recommendation(lines: Sequence[RecommendedChange], explained: bool) -> Table:
    """Make a table of the first lines of a recommendation; ``explained``: with what each is for."""
    table = Table(title="what the best configuration changes", title_justify="left", box=None, pad_edge=False)
    table.add_column("parameter", no_wrap=True)
    for column in ("default", "best", "services", "gain"):
        table.add_column(column, overflow="fold")
    if explained:
        table.add_column("what it is for", overflow="fold")
    for line in lines[:MOST_LINES]:
        risk = "" if line.risk == "none" else f" (can cost {line.risk})"
        row = (line.label, line.default, line.value + risk, line.briefly, line.effect)
        table.add_row(*map(escape, row), *([escape(line.description)] if explained else []))
    return table


def _gain(verdict: Verdict) -> str:
    gain, low, high = (100 * x for x in (verdict.gain.value, verdict.gain.low, verdict.gain.high))
    return f"gain {gain:+.1f} % [{low:+.1f}, {high:+.1f}] ({verdict.statement})"


def outcome_lines(summary: Summary) -> list[str]:
    """Describe limits on the outcome, further objectives and the Pareto set, a line each."""
    lines = []
    for outcome in summary.outcomes:
        kept = {True: "kept", False: "[red]not kept[/]", None: ""}[outcome.kept]
        numbers = f"default {_number(outcome.default)}, best {_number(outcome.best)}"
        lines.append(f"{outcome.limit or outcome.quantity}: {numbers}" + (f" ({kept})" if kept else ""))
    for point in summary.front:
        others = ", ".join(
            f"{name} {_number(value)}" for name, value in zip(summary.study.plan.also, point.others, strict=True)
        )
        lines.append(
            f"Pareto set: trial {point.trial} ({point.purpose}): {summary.objective} {point.value:.2f}, {others}"
        )
    return lines


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"


def notes(summary: Summary) -> list[str]:
    """List what a reader must know to trust the numbers, a sentence each."""
    sentences = list(filter(None, [summary.disagreement]))
    if summary.reduction is not None:
        cut = summary.reduction
        services = len(cut.kept) + len(cut.removed)
        sentences.append(
            f"reduction {cut.kind}: {len(cut.kept)} of {services} services and {cut.parameters} of "
            f"{cut.parameters_before} parameters were tuned; the report says why"
        )
    if summary.unused_priors:
        sentences.append(f"{summary.study.plan.optimizer} takes no priors: the soft reduction changed nothing for it")
    if summary.smaller is not None:
        sentences.append(summary.smaller)
    inert = set(summary.study.decisions.inert)
    own = [change for change in summary.changes if not change.follows]
    without = sum(f"{change.service}.{change.parameter}" in inert for change in own)
    if without:
        sentences.append(f"{without} of the {len(own)} changes mean nothing to the model: they come from chance")
    failed = {state: count for state, count in summary.trials.items() if state in ("failed", "infeasible")}
    if failed:
        sentences.append("trials without a value: " + ", ".join(f"{count} {state}" for state, count in failed.items()))
    if summary.invalid_repetitions:
        many = "s" if summary.invalid_repetitions > 1 else ""
        sentences.append(f"{summary.invalid_repetitions} repetition{many} did not count and had to be measured again")
    if summary.equal_speed is not None and summary.equal_speed.sensitivity.windows > FEW_WINDOWS:
        speed = summary.equal_speed.sensitivity
        sentences.append(
            f"the machine's speed (the processor time of the load generator's ticks) explains "
            f"{100 * speed.explained:.0f} % of how windows of one configuration differ"
        )
    if any(change.proof == "passed" for change in summary.changes):
        sentences.append(
            "(passed): the value was seen in the container's environment, command or file, but no server tells it"
        )
    if summary.study.plan.loop != "open":
        sentences.append(LOOPS_IN_WORDS[summary.study.plan.loop])
    if summary.study.testbed == DOCKER and not summary.study.plan.trace:
        sentences.append("measured without traces: latencies are the load generator's, and no critical path is known")
    sentences.extend(filter(None, (summary.agents, summary.not_joined)))
    if summary.low_confidence:
        sentences.append("some windows hold fewer than 1,000 requests: their p95 is low-confidence")
    if summary.transfer is not None:
        sentences.extend(summary.transfer.sentences)
    if summary.study.plan.prior != "none":
        sentences.append(
            "the search started from what the application's twin says; the verdict is measured all the same"
        )
    if summary.study.plan.limits:
        limits = ", ".join(f"{name} {value:g}" for name, value in summary.study.plan.limits.items())
        sentences.append(f"limits on disturbance other than the application's own: {limits}")
    if summary.standins:
        sentences.append(
            "stand-in images ran (built from Debian packages, true versions): " + ", ".join(summary.standins)
        )
    if summary.overhead is not None:
        sentences.append(
            f"Tailor's own work (render, read back, read, evaluate) took {100 * summary.overhead:.1f} % of a repetition"
        )
    return sentences


def trials_table(trials: list[Trial], objective: str) -> Table:
    """Make a table with a row for each trial; ``objective`` heads the column of its value."""
    table = Table(box=None, pad_edge=False)
    several = len({trial.testbed for trial in trials}) > 1
    for column in ("trial", *(["testbed"] if several else ()), "purpose", "state", objective, "+-", "repetitions",
                   "reason"):  # fmt: skip
        table.add_column(column, overflow="fold")
    for trial in trials:
        table.add_row(
            str(trial.number),
            *([escape(trial.testbed)] if several else ()),
            trial.purpose + (f" {trial.label} {trial.pair + 1}" if trial.pair is not None else ""),
            trial.state,
            "" if trial.value is None else f"{trial.value:.2f}",
            "" if trial.standard_error is None else f"{100 * trial.standard_error:.0f} %",
            str(len({(m.repetition, m.attempt) for m in trial.measurements})),  # of several rates: each has windows
            escape(trial.reason.splitlines()[0] if trial.reason else ""),
        )
    return table


def _level(level: Level, unit: str) -> str:
    source = f"fresh, {level.value.count} repetitions" if level.fresh else f"trial {level.trial}"
    return f"{estimate(level.value, unit)} ({source})"
