"""Commands of the service: serve, worker, token."""

from __future__ import annotations

import ipaddress
import threading
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from framework.cli.logs import to_stderr
from framework.cli.session import messages, opened, output, print_json
from framework.config.settings import Settings
from framework.errors import InputError

LOGS = ("auto", "json", "text")
LOG_HELP = "json (a line an event), text, or auto: text on a terminal."
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command()(serve)
    app.command()(worker)
    tokens = typer.Typer(no_args_is_help=True, help="Bearer tokens of the service.")
    app.add_typer(tokens, name="token")
    tokens.command()(add)
    tokens.command("list")(list_)
    tokens.command()(remove)


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; others than loopback need a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free one.")] = 8420,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Only the API; workers run elsewhere.")] = False,
    log: Annotated[str, typer.Option(help=LOG_HELP)] = "auto",
) -> None:
    """Serve the REST API and the dashboard, with a worker that runs the studies."""
    from framework.api.app import app_of  # here: other commands need not wait for the web server
    from framework.api.connections import Limits
    from framework.api.listening import listening_on
    from framework.api.memory import few_arenas
    from framework.api.server import server_of

    few_arenas()
    _log(log, messages)
    tailor, settings = opened(), Settings.from_environment()
    if not _is_loopback(host) and not tailor.tokens.tokens():
        raise InputError(f"--host: found {host} and no token; make one first: tailor token add NAME")
    listening = listening_on(host, port)
    server = server_of(app_of(tailor, settings, host), Limits(proxies=settings.proxies), tailor.worker.leave)
    working = threading.Thread(target=tailor.worker.run, name="worker")
    if not no_worker:
        working.start()
    address = f"http://{host}:{listening.getsockname()[1]}"
    messages.print(f"{address} (Ctrl-C stops it; a study that runs is paused)", soft_wrap=True)
    try:
        server.run(sockets=[listening])
    finally:
        tailor.worker.leave()
        if not no_worker:
            messages.print("waiting for the worker")
            working.join()


def worker(
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing waits.")] = False,
    log: Annotated[str, typer.Option(help=LOG_HELP)] = "auto",
) -> None:
    """Run the studies that wait in the queue (TAILOR_DATABASE), one after the other."""
    _log(log, messages)
    tailor = opened()
    messages.print("working; Ctrl-C pauses the study that runs and leaves it to other workers")
    try:
        tailor.worker.run(until_empty=until_empty)
    except KeyboardInterrupt:
        tailor.worker.leave()


def add(
    name: Annotated[str, typer.Argument(help="Of whoever gets it.")],
    scope: Annotated[str, typer.Option(help="read, run (launch and stop), or admin (delete).")] = "run",
) -> None:
    """Make a token and print it; it is kept nowhere and cannot be shown again."""
    from framework.api.access import SCOPES, new_token

    known = {name: name for name in SCOPES}
    if scope not in known:
        raise InputError(f"--scope: found {scope!r}; allowed: {', '.join(SCOPES)}")
    token, digest = new_token()
    opened().tokens.add(name, digest, known[scope])
    output.print(token, soft_wrap=True)


def list_(as_json: Json = False) -> None:
    """List the tokens' names and scopes."""
    tokens = opened().tokens.tokens()
    if as_json:
        print_json([{"name": token.name, "scope": token.scope, "created_at": token.created_at} for token in tokens])
        return
    table = Table(box=None, pad_edge=False)
    for column in ("name", "scope", "made"):
        table.add_column(column)
    for token in tokens:
        table.add_row(token.name, token.scope, token.created_at)
    output.print(table)


def remove(name: str) -> None:
    """Take a token back."""
    opened().tokens.remove(name)


def _log(form: str, messages: Console) -> None:
    if form not in LOGS:
        raise InputError(f"--log: found {form!r}; allowed: {', '.join(LOGS)}")
    to_stderr(form == "json" or (form == "auto" and not messages.is_terminal))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
