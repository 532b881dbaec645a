"""``tailor`` on the command line.  A command's module is imported only when the command is called.

So the version and the list of commands take no longer than Python and the command line's library do, and a command
waits only for the imports that it needs itself.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import framework
from framework.cli.exits import exit_code
from framework.errors import InputError, TailorError

COMMANDS: Mapping[str, Mapping[str, str]] = {
    "init": {
        "init": "Understand a compose application, propose how to tune it, and prove every knob; your files stay as "
        "they are.",
    },
    "tune": {
        "tune": "Find a better configuration of an application, and prove it.",
        "resume": "Go on with a study that was stopped; finished trials are kept.",
        "edit": "Tune other parameters in a study that was stopped; what was measured is kept where it still fits.",
    },
    "bench": {
        "bench": "Race optimizers on synthetic problems or measured tables; no engine is needed.",
        "replay": "Run optimizers on the space of a recorded study, answered from its record; no engine is needed.",
    },
    "export": {
        "export": "Write a whole study as one file: JSON to import again, Parquet to analyse; without secrets.",
        "import": "Take in a study that was exported elsewhere.",
        "forget": "Remove what is old, and large things that no study refers to; studies that run or wait are not "
        "touched.",
    },
    "studies": {
        "studies": "List the studies.",
        "show": "Show a study: its trials and its result.",
        "best": "Write the best configuration: compose file, mounted files, configuration and a diff against the "
        "default.",
        "report": "Write a study's report: one self-contained HTML page.",
        "optimizers": "List the optimizers with their options and sources.",
        "spaces": "List the knowledge base: service types and their parameters.",
        "apps": "List the applications below a directory.",
    },
    "machine": {
        "doctor": "Examine what this machine can do, what is missing and how to get it.",
        "clean": "Remove containers, networks and volumes that killed studies and profiles left; what runs stays.",
        "sweep": "Raise the rate on the default configuration until p95 passes the limit; show the knee and propose a "
        "rate.",
    },
    "placement": {
        "profile": "Measure what each service suffers beside stressors, and what it inflicts; goes on where it was "
        "stopped.",
        "place": "Propose where services run, say why, and measure it against all together and random placements.",
    },
    "serve": {
        "serve": "Serve the REST API and the dashboard, with a worker that runs the studies.",
        "worker": "Run the studies that wait in the queue (TAILOR_DATABASE), one after the other.",
        "token": "Bearer tokens of the service.",
    },
    "traces": {
        "analyze": "Show where the time of requests goes: the critical path of traces from files or from Jaeger.",
        "compare": "Compare where the time of requests goes in two configurations, service by service.",
    },
    "guard": {
        "guard": "Run best-effort jobs beside an application as long as its tail latency stays inside the target.",
        "jobs": "The queue of best-effort jobs that a guard runs.",
    },
    "plan": {"plan": "Plan machines for a stated need: how many of which type, what they cost, what binds."},
    "energy": {
        "energy": "Measure what a request and an I/O operation of an application cost, in cycles and joules.",
    },
    "twin": {"twin": "The application's queueing model: make it, ask it."},
}
"""Module of ``framework.cli`` -> command -> the first sentence of its help."""

# The error of a missing argument or an unknown option; typer has its own copy of click and exports only this child.
Refused: Any = typer.BadParameter.__mro__[2]


class Commands(TyperGroup):
    """Lists the commands from the table, and imports the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for summaries in COMMANDS.values():
            self.commands.update({name: TyperCommand(name, help=summary) for name, summary in summaries.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed and command(listed.name or ""), rest


def command(name: str) -> Any:
    """Return the command of this name, with its options."""
    [module] = [module for module, summaries in COMMANDS.items() if name in summaries]
    part = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    import_module(f"framework.cli.{module}").register(part)
    return typer.main.get_group(part).commands[name]


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Tune a microservice application by experiment.",
)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"tailor {framework.__version__}")
        raise typer.Exit


def _stop(signum: int, frame: object) -> None:
    raise KeyboardInterrupt  # SIGTERM ends a study as Ctrl-C does: cleaned up and resumable


def main() -> None:
    """Run the command line; errors become one clear message and the exit code of framework.cli.exits."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        status = app(prog_name="tailor", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)  # the library gives a command's own exit code back
    except TailorError as error:
        from rich.markup import escape

        from framework.cli.flags import flag
        from framework.cli.session import messages

        message = error.message(flag) if isinstance(error, InputError) else str(error)
        messages.print(f"[red]tailor:[/] {escape(message)}", soft_wrap=True)
        sys.exit(exit_code(error))
    except Refused as error:  # a missing argument, an option that does not exist
        error.show()
        sys.exit(exit_code(InputError()))
    except KeyboardInterrupt:
        sys.stderr.write("tailor: interrupted\n")
        sys.exit(130)
