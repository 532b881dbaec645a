"""Examination of a swarm: what each node offers, and what is missing on which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.compose.placed import HOST_LABEL as HOST
from framework.errors import MissingPrerequisite, TestbedUnavailable
from framework.model import Application, Finding
from framework.model.links import links_in_words
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.generators import generator_images
from framework.testbeds.swarm import links
from framework.testbeds.swarm.fleet import CLOCK_S, Node, Swarm, discover


def examine(endpoints: Sequence[str], applications: Sequence[Application], home: Path) -> list[Finding]:
    """Return the findings of every node, then those of the applications' hosts.  ``home``: has the links' file."""
    findings = []
    for endpoint in endpoints:
        engine = Engine(attempts=1, endpoint=endpoint)
        try:
            info = engine.info()
        except TestbedUnavailable as error:
            remedy = "start its engine, or mend TAILOR_SWARM"
            findings.append(Finding(f"node {endpoint}", "missing", str(error), remedy, needed=True))
            continue
        findings.append(_engine(endpoint, info))
    if any(finding.state == "missing" for finding in findings):
        return findings
    try:
        swarm = discover(endpoints)
    except (MissingPrerequisite, TestbedUnavailable) as error:
        return [*findings, Finding("swarm", "missing", str(error), getattr(error, "remedy", ""), needed=True)]
    calls = links_in_words(links.kept(home, swarm.nodes))
    between = [Finding("overlay network", "ok", calls)] if calls else []
    return [*findings, *_nodes(swarm), *between, *(finding for app in applications for finding in _hosts(swarm, app))]


def _engine(endpoint: str, about: Mapping[str, Any]) -> Finding:
    state = (about.get("Swarm") or {}).get("LocalNodeState")
    words = f"engine {about.get('ServerVersion')}, {about.get('NCPU')} cores, {int(about.get('MemTotal', 0)) >> 20} MiB"
    if state != "active":
        return Finding(f"node {endpoint}", "missing", f"{words}; not in a swarm", "docker swarm join", needed=True)
    return Finding(f"node {endpoint}", "ok", words)


def _clock(node: Node) -> Finding:
    what = f"clock of node {node.endpoint}"
    if not node.clock_is_off:
        return Finding(what, "ok", f"within {CLOCK_S:g} s of this machine's")
    return Finding(what, "limited", node.clock_is_off, "synchronise the clocks (chrony or another NTP client)")


def _nodes(swarm: Swarm) -> list[Finding]:
    findings = [_clock(node) for node in swarm.nodes if node.clock_s is not None]
    for node in swarm.nodes:
        known = f"host {node.host}" if node.host else f"no label {HOST}"
        if node is swarm.single:
            findings.append(Finding(f"node {node.endpoint}", "ok", f"{known}: the only node is every host"))
            continue
        remedy = "" if node.host else f"docker node update --label-add {HOST}=NAME {node.id}"
        findings.append(Finding(f"node {node.endpoint}", "ok" if node.host else "limited", known, remedy))
    listed = {str(about["ID"]) for about in swarm.manager.nodes()} - {node.id for node in swarm.nodes}
    if listed:
        words = f"{len(listed)} more nodes are in the swarm, and not in TAILOR_SWARM: nothing runs there"
        findings.append(Finding("swarm", "ok", words))
    return findings


def _hosts(swarm: Swarm, application: Application) -> list[Finding]:
    findings = []
    there = {node.host: node for node in swarm.nodes if node.host}
    for host in dict.fromkeys(service.host for service in application.services):
        what = f"{application.name}: host {host}"
        if host not in there and swarm.single is None:
            remedy = f"docker node update --label-add {HOST}={host} NODE"
            findings.append(Finding(what, "missing", "no node has this label", remedy, needed=True))
            continue
        node = swarm.host(host)
        services = [service.name for service in application.services if service.host == host]
        wanted = {str(application.compose["services"][name].get("image") or "") for name in services}
        absent = sorted(image for image in wanted if image and node.engine.image(image) is None)
        words = f"node {node.name}" + (f"; images to be copied there: {', '.join(absent)}" if absent else "")
        findings.append(Finding(what, "ok", words))
    for image in sorted(generator_images([application])):
        if Engine().image(image) is None:
            findings.append(
                Finding(f"{application.name}: load generator", "missing", image, "make images", needed=True)
            )
    return findings
