"""The command init: adopt an application that somebody else wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.tree import Tree

from framework.adopt.grades import Proof
from framework.adopt.proposal import Proposal
from framework.adopt.requests import SOURCES
from framework.bench import Backends
from framework.cli.session import messages, opened, output, print_json
from framework.cli.terminal import escape
from framework.config.application import FILE
from framework.use_cases.adopt import AdoptRequest, observe, obtain, prove, remove, understand, write, write_page

_COLOURS = {"proven": "green", "passed": "green", "ineffective": "yellow", "refused": "yellow", "not tried": "dim"}
_CERTAINTY = {"certain": "green", "likely": "yellow", "a guess": "red"}


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command()(init)


def init(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Directory of the compose files.")] = Path(),
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", metavar="FILE", help="Compose file, as compose's -f.")
    ] = None,
    env_file: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="As compose's --env-file.")] = None,
    profile: Annotated[list[str] | None, typer.Option(metavar="NAME", help="As compose's --profile.")] = None,
    source: Annotated[
        str, typer.Option("--from", metavar="FORMAT:FILE", help=f"Requests of a workload: {', '.join(SOURCES)}.")
    ] = "",
    target: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Where the new files go (default: DIR/tailor).")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Deploy for the proof without asking.")] = False,
    proof: Annotated[bool, typer.Option(help="Deploy once, and prove every knob.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Understand a compose application, propose how to tune it, and prove every knob; your files stay as they are.

    Files that are there already are kept, and proved.
    """
    request = AdoptRequest(directory, tuple(file or ()), tuple(env_file or ()), tuple(profile or ()), target, source)
    tailor = opened()
    proposal = understand(tailor.backends, request)
    if not as_json:
        _show(proposal)
    kept, before = (request.target / FILE).is_file(), proposal
    written: tuple[Path, ...] = ()
    if kept:
        messages.print(f"[dim]{request.target / FILE} is there already and stays as it is[/]", soft_wrap=True)
    else:
        written = write(request, proposal)
        for path in written:
            messages.print(f"written: {path}", soft_wrap=True)
    shown = None
    if proof and (kept or proposal.entry is not None) and (yes or _agreed()):
        try:
            with messages.status("building and pulling the images that are not here") as status:
                proposal, shown = _tried(
                    tailor.backends,
                    request,
                    proposal,
                    None if kept else written,
                    lambda text: status.update(escape(text)),
                )
        except KeyboardInterrupt:
            remove(written)
            raise
    if not as_json and _document(proposal) != _document(before):
        output.print("its images, and what runs in them, say more:")
        _show(proposal)
    page = write_page(request, proposal, shown)
    messages.print(f"written: {page}", soft_wrap=True)
    if as_json:
        print_json({"proposal": _document(proposal), "proof": None if shown is None else asdict(shown)})
        return
    if shown is not None:
        _show_proof(shown, kept=kept)
    _show_next(request)


def _show_next(request: AdoptRequest) -> None:
    """Print what to do next."""
    output.print("next:")
    for command, why in (
        (f"tailor doctor {request.target}", "what a study would copy, build, leave out or refuse"),
        (f"tailor sweep {request.target}", "the rate at which it is worth tuning"),
        (f"tailor tune {request.target} --quick", "a first look; add --rate with what the sweep proposes"),
    ):
        output.print(f"  {command}  [dim]# {why}[/]", soft_wrap=True)


def _tried(
    backends: Backends,
    request: AdoptRequest,
    proposal: Proposal,
    written: tuple[Path, ...] | None,
    step: Callable[[str], None],
) -> tuple[Proposal, Proof]:
    """Get the images, understand the application again, prove it; return what it is and the proof.

    ``written``: files that are written anew with what became known; None: they are the user's.
    """
    obtain(backends, request.target)
    proposal = understand(backends, request)  # images say more
    if written is not None:
        write(request, proposal, again=written)
        if proposal.unknown:
            programs = observe(backends, request.target, step)
            proposal = understand(backends, request, programs)  # and what runs says more still
            write(request, proposal, again=written)
    proof = prove(backends, request.target, step)
    if written is not None and (proof.baseline or proof.left_alone):
        write(request, proposal, proof, again=written)
    return proposal, proof


def _agreed() -> bool:
    """Ask whether to deploy; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        messages.print("[dim]not deployed for the proof: no terminal to ask (--yes deploys)[/]")
        return False
    return typer.confirm("Deploy it once beside what runs, to prove every knob?", default=True)


def _show(proposal: Proposal) -> None:
    """Print the application as it was understood: the entry, whom it calls, and the rest."""
    entry = proposal.entry
    title = f"[bold]{proposal.application.name}[/]"
    if entry is not None:
        title += f"  clients -> {entry.scheme}://{entry.service}:{entry.port} ({entry.reason})"
    tree = Tree(title)
    shown: set[str] = set()
    if entry is not None:
        _branch(tree, proposal, entry.service, shown)
    for name in proposal.parts:
        if name not in shown:
            _branch(tree, proposal, name, shown)
    output.print(tree)
    for doubt in proposal.doubts:
        output.print(f"[yellow]?[/] {escape(doubt)}", soft_wrap=True)


def _branch(tree: Tree, proposal: Proposal, name: str, shown: set[str]) -> None:
    """Add a service with those that it calls; one that stands elsewhere already is only named."""
    part, match = proposal.parts[name], proposal.types.get(name)
    if name in shown:
        tree.add(f"[dim]{name}[/]")
        return
    shown.add(name)
    if match is not None:
        colour = _CERTAINTY[match.certainty]
        text = f"{name}  [{colour}]{match.type}[/] [dim]{match.certainty}: {escape(match.reason)}[/]"
    else:
        left = " (left out)" if name in proposal.left_out else ""
        text = f"{name}  [dim]{part.role}{left}{': ' if part.reason else ''}{escape(part.reason)}[/]"
    branch = tree.add(text)
    for other in part.calls:
        if proposal.parts[other].role == "tracing":  # nearly every service sends spans there
            continue
        _branch(branch, proposal, other, shown)


def _show_proof(proof: Proof, *, kept: bool) -> None:
    """Print a proof; ``kept``: application.yaml is the user's, and nothing of it was written there."""
    output.print(f"ready after {proof.seconds:.0f} s")
    if proof.problem and not proof.requests:
        output.print(f"[yellow]?[/] the entry could not be proven: {escape(proof.problem)}", soft_wrap=True)
    else:
        traced = "" if proof.spans is None else f", {proof.spans} spans"
        problem = f" [yellow]({escape(proof.problem)})[/]" if proof.problem else ""
        output.print(f"{proof.requests} requests, {proof.failed or 'none'} failed{traced}{problem}", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("parameter", "today", "tried", "grade", "why"):
        table.add_column(column, overflow="fold")
    for knob in proof.knobs:
        today = proof.baseline.get(knob.name, knob.default)
        tried = "" if knob.other is None else str(knob.other)
        table.add_row(knob.name, str(today), tried, f"[{_COLOURS[knob.grade]}]{knob.grade}[/]", escape(knob.reason))
    output.print(table)
    if proof.left_alone:
        names = ", ".join(proof.left_alone)
        said = "and are tuned until application.yaml says `fixed: {NAME: default}`" if kept else "and are left alone"
        output.print(f"change nothing or cannot be set, {said}: {names}", soft_wrap=True)


def _document(proposal: Proposal) -> dict[str, object]:
    return {
        "name": proposal.application.name,
        "entry": None if proposal.entry is None else asdict(proposal.entry),
        "services": {
            name: {
                "role": part.role,
                "reason": part.reason,
                "calls": part.calls,
                "type": None if name not in proposal.types else asdict(proposal.types[name]),
            }
            for name, part in proposal.parts.items()
        },
        "tracing": dict(proposal.tracing),
        "requests": [asdict(request) for request in proposal.requests],
        "doubts": proposal.doubts,
    }
