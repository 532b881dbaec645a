"""Inventory of the containers that run, as the engine reports it: id, address, image digest, start time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from framework.errors import DeploymentFailed
from framework.model import Container
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.listed import Listed
from framework.testbeds.docker.standins import standins


@dataclass(frozen=True, slots=True)
class Networks:
    """The networks that the load generator joins: the entry's, and those of other services that it calls."""

    entry: str
    also: tuple[str, ...] = ()


def networks_of(listed: Mapping[str, Sequence[Listed]], reached: Sequence[str]) -> Networks:
    """Choose networks over which all of ``reached`` (the entry first) can be called.

    Of an entry's several networks it is the one that most services share; without an entry, the same of all.
    """
    shared = Counter(name for replicas in listed.values() for name in {n for c in replicas for n in c.addresses})
    chosen: list[str] = []
    for service in reached if any(service in listed for service in reached) else ():
        own = {name for container in listed.get(service, ()) for name in container.addresses}
        if own and not own & set(chosen):
            chosen.append(max(own, key=lambda name: (shared[name], name)))
    if not chosen and shared:
        chosen = [max(shared, key=lambda name: (shared[name], name))]
    return Networks(chosen[0] if chosen else "", tuple(chosen[1:]))


def describe_containers(
    engine: Engine, listed: Mapping[str, Sequence[Listed]], want: Wanted, network: str
) -> dict[str, Container]:
    """Describe the containers that go on running: service -> its first container, with its other replicas.

    Addresses are those on ``network`` where a container has one there.  Raises DeploymentFailed when a container
    restarted while it came up, unless its file tells the engine to restart it, or has stopped.
    """
    lasting = {service: [c for c in replicas if c.state != "exited"] for service, replicas in listed.items()}
    images = {container.image_id for replicas in lasting.values() for container in replicas}
    details = dict(zip(images, in_parallel(engine.image, images), strict=True))
    made = standins(engine, filter(None, details.values()))

    def describe(container: Listed) -> Container:
        service = container.service
        about = engine.inspect(container.id)
        if about is None or not about["State"]["Running"]:
            raise DeploymentFailed("it stopped right after it was ready", service, engine.logs(container.id))
        restarts = int(about.get("RestartCount") or 0)
        if restarts and service not in want.restarted:
            raise DeploymentFailed(f"it restarted {restarts} times", service, engine.logs(about["Id"]))
        image = details[container.image_id] or {}
        digests = image.get("RepoDigests") or []
        attached = about["NetworkSettings"]["Networks"]
        address = (attached.get(network) or {}).get("IPAddress") or ""
        return Container(
            service=service,
            id=about["Id"],
            name=about["Name"].lstrip("/"),
            image=about["Config"]["Image"],
            image_digest=digests[0].partition("@")[2] if digests else about["Image"],
            address=address or next((n["IPAddress"] for n in attached.values() if n.get("IPAddress")), ""),
            pid=int(about["State"]["Pid"]),
            started_at=about["State"]["StartedAt"],
            standin=container.image_id in made,
            restarts=restarts,
        )

    every = [container for service in want.services for container in lasting.get(service, ())]
    described: dict[str, list[Container]] = {}
    for container in in_parallel(describe, every):
        described.setdefault(container.service, []).append(container)
    return {service: replace(first, others=tuple(rest)) for service, (first, *rest) in described.items()}
