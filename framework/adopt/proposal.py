"""The proposal of `tailor init`: what was understood of an application, and the files that say it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from framework.adopt.grades import Proof
from framework.adopt.hosts import HOSTS, proposed_hosts
from framework.adopt.recognition import Recognised, recognise
from framework.adopt.requests import Request
from framework.adopt.roles import BEHIND_PROFILE, Entry, Part, entry_of, parts_of, tracing_of
from framework.adopt.spans import about_spans, agents_offered, tracing_entry
from framework.config.writing import to_yaml
from framework.model import Application, ServiceType

LEFT_OUT = ("load generator", "monitoring")
HOOKS = {"seed": "seed", "prepare": "prepare", "check_before": "check_before", "check": "check_after",
         "check_after": "check_after"}  # fmt: skip
"""Name of a one-shot behind the profile "tailor" -> the hook that it is."""
MOST_OTHERS = 3  # services that are named
WIDTH = 60  # of the column before the reasons
RATE_RPS = 10.0
"""Rate of a first study where nobody told another; `tailor sweep` finds what the application can do."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An application as it was understood.

    ``parts``: service -> its role and calls.  ``types``: service -> its type, of those that were recognised.
    ``tracing``: kind of back-end -> service.  ``spans``: `tracing` of application.yaml, None where there are none.
    ``requests``: the workload; ``stand_in``: it is only the front page.
    ``doubts``: what a person has to look at, a sentence each.
    """

    application: Application
    parts: Mapping[str, Part]
    types: Mapping[str, Recognised]
    entry: Entry | None
    tracing: Mapping[str, str]
    spans: Mapping[str, Any] | None
    requests: tuple[Request, ...]
    stand_in: bool
    doubts: tuple[str, ...]

    @property
    def left_out(self) -> tuple[str, ...]:
        """The services that a study does not need."""
        return tuple(name for name, part in self.parts.items() if part.role in LEFT_OUT)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The services whose type is not known."""
        return tuple(name for name, part in self.parts.items() if part.role == "service" and name not in self.types)

    @property
    def jaeger(self) -> str:
        """The service that is a Jaeger; empty without one."""
        return self.tracing.get("jaeger", "")

    @property
    def hosts(self) -> Mapping[str, str]:
        """Service -> the host that it would be on where there are several; empty for a small application."""
        return proposed_hosts(self.parts, self.types)


def propose(
    application: Application,
    types: Mapping[str, ServiceType],
    requests: Sequence[Request] = (),
    running: Mapping[str, Sequence[str]] | None = None,
) -> Proposal:
    """Say what an application is.

    ``requests``: of a workload that the user has; none: the front page stands in.  ``running``: service -> programs
    that were seen in it.
    """
    parts = parts_of(application)
    recognised = {
        name: match
        for name, part in parts.items()
        if part.role == "service"
        and (match := recognise(application, name, types, (running or {}).get(name, ()))) is not None
    }
    databases = frozenset(name for name, match in recognised.items() if not match.speaks_http)
    entry = entry_of(application, parts, databases)
    tracing = tracing_of(application, parts)
    made = tuple(requests) or (_front_page(entry),)
    spans = tracing_entry(application, parts, tracing)
    doubts = _doubts(parts, recognised, entry, stand_in=not requests)
    doubts += filter(None, [about_spans(spans, agents_offered(parts, recognised))])
    return Proposal(application, parts, recognised, entry, tracing, spans, made, not requests, tuple(doubts))


def _front_page(entry: Entry | None) -> Request:
    """Return a request of the front page as a browser on the user's machine makes it: many answer to no other name."""
    host = {"Host": entry.address} if entry is not None and entry.address else {}
    return Request("front-page", "GET", "/", headers=host, follow=True)


def _doubts(
    parts: Mapping[str, Part],
    recognised: Mapping[str, Recognised],
    entry: Entry | None,
    *,
    stand_in: bool,
) -> list[str]:
    doubts = []
    if entry is None:
        doubts.append("No service was found that clients call: set workload.target.")
    elif not entry.certain:
        others = f", as it is of {', '.join(entry.others[:MOST_OTHERS])}" if entry.others else ""
        doubts.append(f"Clients seem to call {entry.service} ({entry.reason}{others}): check workload.target.")
    for name, match in recognised.items():
        if match.certainty == "a guess":
            doubts.append(f"{name} may be {match.type}: {match.reason}.")
    unknown = [name for name, part in parts.items() if part.role == "service" and name not in recognised]
    if unknown:
        many = "they run, and are" if len(unknown) > 1 else "it runs, and is"
        doubts.append(f"The type of {', '.join(unknown)} is not known: {many} not tuned.")
    if stand_in:
        doubts.append("The workload is a stand-in, one GET of the front page: say what your users do (--from).")
    return doubts


# --------------------------------------------------------------------------- files


def application_text(
    proposal: Proposal,
    compose: Sequence[str],
    env_files: Sequence[str],
    profiles: Sequence[str],
    proof: Proof | None = None,
) -> str:
    """Return the text of application.yaml, with the reasons as comments.

    ``proof``: what the first deployments showed, from which it gets baselines and parameters to leave alone.
    """
    lines = ["# Made by `tailor init`; the compose files stay as they are.  Change what is wrong, and run it again."]
    for doubt in proposal.doubts:
        lines += [f"# {line}" for line in textwrap.wrap(f"? {doubt}", 110)]
    lines += ["kind: application", "version: 1", f"name: {proposal.application.name}"]
    files = compose[0] if len(compose) == 1 else list(compose)
    lines += _entry("compose", files)
    for key, values in (("env_files", env_files), ("profiles", profiles), ("leave_out", proposal.left_out)):
        if values:
            lines += _entry(key, list(values))
    used = [host for host in HOSTS if host in proposal.hosts.values()]
    if used:
        lines.append(f"hosts: [{', '.join(used)}]  # where there are several machines; on one they mean nothing")
    services = _services(proposal, proof)
    known = any(not line.lstrip().startswith("#") for line in services)
    lines += ["services:" if known else "services: {}", *services]
    target = f"{proposal.entry.scheme}://{proposal.entry.service}:{proposal.entry.port}" if proposal.entry else ""
    reason = f"  # {proposal.entry.reason}" if proposal.entry else "  # ? which service do clients call?"
    lines += ["workload:", "  file: workload.yaml", f"  rate_rps: {RATE_RPS:g}"]
    lines.append(f"  target: {target or 'http://SERVICE:PORT'}{reason}")
    if proposal.spans is not None:
        lines += _entry("tracing", dict(proposal.spans))
    hooks = [f"  {HOOKS[name]}: {{service: {name}}}" for name, part in proposal.parts.items()
             if name in HOOKS and part.reason == BEHIND_PROFILE]  # fmt: skip
    if hooks:
        lines += ["hooks:", *hooks]
    return "\n".join(lines) + "\n"


def _services(proposal: Proposal, proof: Proof | None) -> list[str]:
    """Return a line for each service: its type with the reason, or why it has none."""
    entries: list[tuple[str, str]] = []
    for name, part in proposal.parts.items():
        match = proposal.types.get(name)
        host = [f"host: {proposal.hosts[name]}"] if name in proposal.hosts else []
        if name == proposal.jaeger:
            said = ["type: jaeger", *host, "tuned: false"]
            entries.append((f"{name}: {{{', '.join(said)}}}", f"{part.role}: {part.reason}"))
        elif match is not None:
            said = [f"type: {match.type}", *host, *_proven(name, proof)]
            entries.append((f"{name}: {{{', '.join(said)}}}", f"{match.certainty}: {match.reason}"))
        elif name not in proposal.left_out:
            why = f"{part.role}: {part.reason}" if part.reason else "its type is not known; it runs, and is not tuned"
            entries.append(("", f"{name}: {why}"))
    width = min(max((len(entry) for entry, _ in entries), default=0), WIDTH)
    lines = [f"  {entry:<{width}}  # {why}" if entry else f"  # {why}" for entry, why in entries]
    if not proposal.types:
        lines.append("  # no type was recognised: nothing can be tuned yet; see `tailor spaces`")
    return lines


def _proven(service: str, proof: Proof | None) -> list[str]:
    """Return the keys of a service that a proof adds: its baseline, and parameters that are left alone."""
    if proof is None:
        return []
    baseline = {n.rpartition(".")[2]: v for n, v in proof.baseline.items() if n.rpartition(".")[0] == service}
    fixed = [name.rpartition(".")[2] for name in proof.left_alone if name.rpartition(".")[0] == service]
    kept = {name: value for name, value in baseline.items() if name not in fixed}
    texts = [f"baseline: {{{', '.join(f'{n}: {json.dumps(v)}' for n, v in kept.items())}}}"] if kept else []
    return texts + ([f"fixed: {{{', '.join(f'{name}: default' for name in fixed)}}}"] if fixed else [])


def workload_text(proposal: Proposal) -> str:
    """Return the text of workload.yaml."""
    document = {
        "kind": "workload",
        "version": 1,
        "timeout_ms": 10_000,
        "requests": [_request(request) for request in proposal.requests],
    }
    head = "# A stand-in: one GET of the front page.  Say here what your users do.\n" if proposal.stand_in else ""
    return head + to_yaml(document)


def _request(request: Request) -> dict[str, object]:
    path, _, query = request.path.partition("#")[0].partition("?")
    made: dict[str, object] = {"name": request.name, "weight": request.weight, "method": request.method}
    made["path"] = _literal(path or "/")
    if query:
        made["query"] = {name: _literal(text) for name, text in parse_qsl(query, keep_blank_values=True)}
    if request.headers:
        made["headers"] = {name: _literal(text) for name, text in request.headers.items()}
    if request.body:
        made["body"] = _literal(request.body)
    if request.follow:
        made["follow"] = True
    return made


def _literal(text: str) -> str:
    """Double the braces of a text, which stand for variables in a workload."""
    return text.replace("{", "{{").replace("}", "}}")


def _entry(key: str, value: object) -> list[str]:
    return to_yaml({key: value}).rstrip().split("\n")
