"""The commands that compare optimizers without an engine: bench on synthetic problems, replay on a recorded study."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from framework.benchmark.races import Entry, race, recorded, replayed
from framework.benchmark.tables import lines_of
from framework.cli.session import messages, opened, output, print_json
from framework.config.writing import write_text
from framework.errors import InputError
from framework.report.race_tables import standings, write_tables
from optimizer.benchmark.lists import LISTS, fingerprint
from optimizer.benchmark.race import Run, kind_of
from optimizer.errors import OptimizerError

CHECKPOINTS = (15, 30, 50, 100)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(bench)
    app.command()(replay)


def bench(
    optimizers: Annotated[
        list[str], typer.Argument(metavar="OPTIMIZER...", help="See `tailor optimizers`; or module:Class.")
    ],
    which: Annotated[str, typer.Option("--list", help=f"Problems: one of {', '.join(LISTS)}.")] = "development",
    only: Annotated[list[str] | None, typer.Option(help="Problems whose line contains this (repeatable).")] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option(
            help="Instead of a list: 'twin APP', 'twin APP critical-path', 'made SEED SERVICES chain|fan-out', "
            "or a line of a list (repeatable)."
        ),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="Instead of a list: a CSV file of measured configurations, each objective of it a problem; columns "
            "that end in - are minimised, in + maximised, the others are options (repeatable).",
        ),
    ] = None,
    evaluations: Annotated[int, typer.Option(help="Evaluations of each run, besides the default.")] = 30,
    seeds: Annotated[int, typer.Option(help="Runs of each optimizer on each problem.")] = 3,
    workers: Annotated[int | None, typer.Option(help="Processes [default: one a core].")] = None,
    directory: Annotated[
        Path, typer.Option("--output", help="Directory of the runs, tables and figures; runs found there are kept.")
    ] = Path("bench"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Race optimizers on synthetic problems or measured tables; no engine is needed."""
    named = [*(problem or []), *(line for name in table or [] for line in lines_of(name))]
    problems = named or _chosen(which, only or [])
    asked = _Race(optimizers, problems, evaluations, seeds, workers, directory)
    title = ", ".join(named) if named else f"list {which}, {fingerprint(problems)}"
    _report(asked, asked.run(messages), title, as_json)


def replay(
    record: Annotated[str, typer.Argument(metavar="STUDY|FILE", help="A study's id, or a record of one.")],
    optimizers: Annotated[
        list[str], typer.Argument(metavar="OPTIMIZER...", help="See `tailor optimizers`; or module:Class.")
    ],
    evaluations: Annotated[int, typer.Option(help="Evaluations of each run, besides the default.")] = 15,
    seeds: Annotated[int, typer.Option(help="Runs of each optimizer.")] = 5,
    workers: Annotated[int | None, typer.Option(help="Processes [default: one a core].")] = None,
    directory: Annotated[
        Path, typer.Option("--output", help="Directory of the record, runs, tables and figures; runs are kept.")
    ] = Path("replay"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Run optimizers on the space of a recorded study, answered from its record; no engine is needed."""
    path = Path(record)
    if not path.is_file():
        store = opened().store
        study = store.get(record)
        path = directory / f"{study.id}.json"
        write_text(path, json.dumps(recorded(study, store.trials(study.id))) + "\n")
    try:
        statement = replayed(path).statement
    except OptimizerError as error:
        raise InputError(str(error)) from error
    asked = _Race(optimizers, [f"replay {path}"], evaluations, seeds, workers, directory)
    messages.print(statement, soft_wrap=True)
    _report(asked, asked.run(messages), statement, as_json)


def _report(asked: _Race, runs: Sequence[Run], title: str, as_json: bool) -> None:
    written = write_tables(runs, asked.directory, title)
    ranking = standings(runs, [n for n in CHECKPOINTS if n <= asked.evaluations] or [asked.evaluations])
    if as_json:
        ranks = {str(n): after.mean_ranks for n, after in ranking.items()}
        print_json({"title": title, "problems": asked.problems, "mean_ranks": ranks, "files": written})
        return
    _show(output, ranking)
    output.print("\n".join(str(path) for path in written), soft_wrap=True)


@dataclass(frozen=True)
class _Race:
    """A race as the command line asks for it."""

    optimizers: Sequence[str]
    problems: Sequence[str]
    evaluations: int
    seeds: int
    workers: int | None
    directory: Path

    def run(self, messages: Console) -> list[Run]:
        """Return the runs, those that are kept in the directory too.  Raises InputError."""
        for option, value in (
            ("--evaluations", self.evaluations),
            ("--seeds", self.seeds),
            ("--workers", self.workers or 1),
        ):
            if value < 1:
                raise InputError(f"{option}: found {value}; allowed: at least 1")
        entries = [Entry(name) for name in dict.fromkeys(self.optimizers)]
        path = self.directory / "runs.jsonl"
        seeds = range(1, self.seeds + 1)
        try:
            for name in self.optimizers:
                kind_of(name)
            return _race(messages, entries, self.problems, seeds, self.evaluations, path, self.workers)
        except OptimizerError as error:
            raise InputError(str(error)) from error


def _chosen(which: str, only: Sequence[str]) -> list[str]:
    if which not in LISTS:
        raise InputError(f"--list: found {which!r}; allowed: {', '.join(LISTS)}")
    chosen = [line for line in LISTS[which] if not only or any(text in line for text in only)]
    if not chosen:
        raise InputError(f"--only: found {', '.join(only)}; allowed: a part of one of {'; '.join(LISTS[which])}")
    return chosen


def _race(
    messages: Console,
    entries: Sequence[Entry],
    problems: Sequence[str],
    seeds: Sequence[int],
    evaluations: int,
    path: Path,
    workers: int | None,
) -> list[Run]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    if path.exists():
        messages.print(f"runs of {path} are kept where optimizer and problem are as they were", soft_wrap=True)
    with Progress(*columns, console=messages, transient=True) as bar:
        task = bar.add_task("runs", total=None)
        return race(
            entries, problems, seeds, evaluations, path, workers=workers,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )  # fmt: skip


def _show(output: Console, ranking: Any) -> None:
    """Print mean ranks, the best of the last column first."""
    last = list(ranking)[-1]
    table = Table(box=None, pad_edge=False)
    table.add_column("mean rank over the problems", no_wrap=True)
    for evaluations in ranking:
        table.add_column(f"after {evaluations}", justify="right")
    for name in ranking[last].mean_ranks:
        table.add_row(name, *(f"{after.mean_ranks[name]:.2f}" for after in ranking.values()))
    output.print(table)
