"""Commands about best-effort jobs beside a latency-critical application: guard, jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from framework.cli import terminal
from framework.cli.groups import RunByDefault
from framework.cli.session import messages, opened, output, print_json
from framework.config.durations import seconds as seconds_of
from framework.guard.tuning import Tried, days, tuned
from framework.model.batch_job import BatchJob
from framework.model.cpus import read_cpus
from framework.model.guard_record import Acted, Began, Decided, EndedAt, Entry, JobNoted, Noted
from framework.report.guard import summarised
from framework.use_cases.guard import Guarded, GuardRequest

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
LAST = 8  # lines of what happened, in the live view
BAR = 24  # characters
OWN_SEEDS = 500  # the first seed of `tailor guard tune`


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group = typer.Typer(
        cls=RunByDefault,
        no_args_is_help=True,
        help="Run best-effort jobs beside an application as long as its tail latency stays inside the target.",
    )
    app.add_typer(group, name="guard")
    group.command("run")(guard)
    group.command("tune")(tune_policy)
    jobs = typer.Typer(no_args_is_help=True, help="The queue of best-effort jobs that a guard runs.")
    app.add_typer(jobs, name="jobs")
    jobs.command("add")(add_jobs)
    jobs.command("list")(list_jobs)
    jobs.command("forget")(forget_job)


def guard(
    application: Annotated[
        Path | None, typer.Argument(metavar="[APP]", help="Directory of an application.yaml.", show_default=False)
    ] = None,
    target: Annotated[
        str, typer.Option(help="The tail latency to keep, such as 'p95 <= 15ms' [default: the application's].")
    ] = "",
    jobs: Annotated[Path | None, typer.Option(help="A file of jobs to queue first.")] = None,
    project: Annotated[
        str, typer.Option(help="Guard this running compose project instead of deploying the application.")
    ] = "",
    policy: Annotated[
        str, typer.Option(help="tailor, thesis, heracles, koordinator, sideloader, pid, static:CORES or off.")
    ] = "tailor",
    option: Annotated[list[str] | None, typer.Option(help="Option of the policy, name=value (repeatable).")] = None,
    rate: Annotated[
        float,
        typer.Option(help="Drive a load of so many requests per second [default: the application's day, or rate]."),
    ] = 0.0,
    load_profile: Annotated[
        Path | None, typer.Option(help="Drive the load of a day (kind: load-profile), replayed in the time of --for.")
    ] = None,
    latency: Annotated[
        str,
        typer.Option(help="Where the users' own latency is read: prometheus=, metrics=, access-log= or jaeger=."),
    ] = "",
    peak: Annotated[float, typer.Option(help="The highest rate that the application is to serve.")] = 0.0,
    link: Annotated[float, typer.Option(help="Outgoing link [Mb/s], to divide; 0: not shaped.")] = 0.0,
    disk: Annotated[float, typer.Option(help="Bandwidth of a disk [MB/s], to divide; 0: not limited.", min=0.0)] = 0.0,
    cpus: Annotated[str, typer.Option(help="CPUs to divide, such as 0-7; default: all.")] = "",
    length: Annotated[str, typer.Option("--for", help="How long, such as 10m; default: until Ctrl-C.")] = "",
    canary: Annotated[
        bool, typer.Option("--canary", help="Sense pressure on memory by a small walk through it (1 % of a CPU).")
    ] = False,
    profile: Annotated[
        Path | None,
        typer.Option(help="Of `tailor profile`: protects its critical path, and pauses the job that harms it most."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Set nothing; log what would be set.")] = False,
    seed: Annotated[int, typer.Option(help="Of the arrivals.")] = 1,
    as_json: Json = False,
) -> None:
    """Run best-effort jobs beside an application as long as its tail latency stays inside the target.

    It sets CPU sets of the application's containers and gives them back at the end, after Ctrl-C, and after a crash.
    """
    request = GuardRequest(
        target, application, project, jobs, policy,
        {name: str(value) for name, value in terminal.values(option or [], "--option").items()},
        rate, load_profile, latency, peak, link, disk, read_cpus(cpus), seconds_of("--for", length) if length else None,
        canary, profile, dry_run, seed,
    )  # fmt: skip
    guards = opened().guards
    view = _View()
    if messages.is_terminal and not as_json:
        with Live(view, console=messages, refresh_per_second=4):
            guarded = guards.run(request, view.add, view.step)
    else:
        guarded = guards.run(request, _printing(), lambda text: messages.print(text, soft_wrap=True))
    _show(guarded, as_json)


def _show(guarded: Guarded, as_json: bool) -> None:
    summary = summarised(guarded.entries)
    if as_json:
        print_json(
            {
                "directory": guarded.directory,
                "reason": guarded.reason,
                "left": guarded.left,
                "time_s": summary.time_s,
                "violation": summary.violation,
                "worst_ms": summary.worst_ms,
                "work_s": summary.work_s,
                "utilisation": summary.utilisation,
                "energy_estimated_j": summary.idle_j + summary.lc_j + summary.be_j if summary.power else None,
            }
        )
        return
    output.print(
        f"{guarded.reason}: the target was missed in {summary.violation:.2%} of {summary.time_s:.0f} s (worst "
        f"{summary.worst_ms:.1f} ms); jobs did {summary.work_s:.0f} core seconds; the machine was "
        f"{summary.utilisation:.0%} busy",
        soft_wrap=True,
    )
    for text in guarded.left:
        output.print(f"[red]not given back:[/] {terminal.escape(text)}", soft_wrap=True)
    output.print(f"report: {guarded.directory / 'report.html'}\naudit log: {guarded.directory / 'audit.jsonl'}",
                 soft_wrap=True)  # fmt: skip


def _printing() -> Callable[[Entry], None]:
    """Return a watch that prints a line now and then, and each change of what jobs and knobs do."""
    last_s = [-10.0]

    def watch(entry: Entry) -> None:
        if isinstance(entry, Decided):
            if entry.time_s - last_s[0] < 5.0:
                return
            last_s[0] = entry.time_s
        messages.print(_line(entry), soft_wrap=True, highlight=False, markup=False)

    return watch


def _line(entry: Entry) -> str:
    match entry:
        case Began():
            lacks = "".join(f"\nnot here: {text}" for text in entry.missing)
            return f"guarding {entry.guarded} with {entry.policy} on {entry.host.cores} cores{lacks}"
        case Decided():
            sample, setting = entry.sample, entry.decision.setting
            latency = "no latency" if sample.latency_ms is None else f"{sample.latency_ms:.1f} ms"
            rate = "no rate" if sample.rate_rps is None else f"{sample.rate_rps:.0f} requests/s"
            be = f"BE has {setting.cores:g} cores" if setting.running else "BE stands still"
            return f"{entry.time_s:6.1f} s  {latency}, {rate}, {be}"
        case Acted():
            would = "would set" if entry.dry_run else "set"
            return f"{entry.time_s:6.1f} s  {would} {entry.knob}: {entry.old} -> {entry.new} ({entry.rule})"
        case JobNoted():
            return f"{entry.time_s:6.1f} s  job {entry.name}: {entry.text}"
        case Noted():
            return f"{entry.time_s:6.1f} s  {entry.text}"
        case EndedAt():
            return f"{entry.time_s:6.1f} s  ended: {entry.reason}"


class _View:
    """The live view: the last sample, who has which cores, and what happened last."""

    def __init__(self) -> None:
        self._began: Began | None = None
        self._last: Decided | None = None
        self._lines: list[str] = []
        self._step = ""

    def step(self, text: str) -> None:
        self._step = text

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Began):
            self._began = entry
        if isinstance(entry, Decided):
            self._last = entry
        else:
            self._lines = [*self._lines, _line(entry)][-LAST:]

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 1))
        if self._began is None or self._last is None:
            table.add_row(Text(self._step or "starting"))
            return table
        sample, setting, host = self._last.sample, self._last.decision.setting, self._began.host
        latency = sample.latency_ms
        over = latency is None or latency > host.target_ms
        shown = "none" if latency is None else f"{latency:.1f} ms"
        table.add_row("latency", _bar(latency, host.target_ms, "red" if over else "green"),
                      f"{shown} of {host.target_ms:g} ms")  # fmt: skip
        rate = sample.rate_rps
        table.add_row("rate", _bar(rate, host.peak_rps, "blue"), "none" if rate is None else f"{rate:.0f} requests/s")
        table.add_row("LC uses", _bar(sample.lc_cores, host.cores, "blue"), f"{sample.lc_cores or 0:.2f} cores")
        table.add_row("BE uses", _bar(sample.be_cores, host.cores, "cyan"), f"{sample.be_cores or 0:.2f} cores")
        may = f"{setting.cores:g} cores" if setting.running else "nothing: it stands still"
        table.add_row("BE may", _bar(setting.cores if setting.running else 0.0, host.cores, "cyan"), may)
        for line in self._lines:
            table.add_row("", "", Text(line, overflow="ellipsis", no_wrap=True))
        return table


def _bar(value: float | None, full: float, colour: str) -> Text:
    share = 0.0 if value is None or full <= 0 else min(1.0, value / full)
    filled = round(share * BAR)
    return Text("█" * filled, style=colour) + Text("·" * (BAR - filled), style="dim")


def tune_policy(
    policy: Annotated[str, typer.Option(help="Whose numbers.")] = "tailor",
    trials: Annotated[int, typer.Option(min=1, help="How many to try.")] = 30,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the days; each has 36 of them.")] = 1,
    optimizer: Annotated[str, typer.Option(help="That searches.")] = "tailor",
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
    as_json: Json = False,
) -> None:
    """Search for better numbers of a policy on the simulated machine; no engine is needed.

    The days are not those of the project's own comparison, so that its held-out list stays one.
    """
    tried = tuned(
        policy, trials, list(days(range(OWN_SEEDS, OWN_SEEDS + seeds))), _show_tried, optimizer, workers=workers
    )
    best = min(tried, key=lambda attempt: attempt.value)
    if as_json:
        print_json({"best": best, "tried": tried})
        return
    changed = {name: value for name, value in best.options.items() if value != tried[0].options[name]}
    words = " ".join(f"--option {name}={value:.4g}" for name, value in changed.items())
    output.print(f"own numbers: {_tried(tried[0])}\nbest: {_tried(best)}", soft_wrap=True)
    output.print(f"use it: tailor guard ... --policy {policy} {words}" if changed else "its own numbers are the best",
                 soft_wrap=True)  # fmt: skip


def _show_tried(attempt: Tried) -> None:
    messages.print(_tried(attempt), soft_wrap=True)


def _tried(attempt: Tried) -> str:
    return f"target missed in {attempt.violation:.3%} of the time, {attempt.work:.1%} of the oracle's work"


def add_jobs(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A file of jobs (kind: jobs).")], as_json: Json = False
) -> None:
    """Queue the jobs of a file; one whose name waits or runs already is not queued again."""
    jobs = opened().guards.add_jobs(path)
    print_json(jobs) if as_json else _print_jobs(jobs)


def list_jobs(as_json: Json = False) -> None:
    """List the jobs of the queue, with what they did."""
    jobs = opened().guards.queue.all()
    print_json(jobs) if as_json else _print_jobs(jobs)


def forget_job(number: Annotated[int, typer.Argument(help="Its number in the list.")]) -> None:
    """Remove a job that does not run from the queue."""
    opened().guards.queue.forget(number)


def _print_jobs(jobs: Sequence[BatchJob]) -> None:
    if not jobs:
        output.print("no jobs")
        return
    table = Table(box=None, pad_edge=False)
    for column in ("number", "job", "state", "attempt", "useful s", "wasted s", "reason"):
        table.add_column(column)
    for job in jobs:
        table.add_row(
            str(job.number), job.spec.name, job.state.value, str(job.attempt), f"{job.useful_s + job.used_s:.0f}",
            f"{job.wasted_s:.0f}", terminal.escape(job.reason),
        )  # fmt: skip
    output.print(table)
