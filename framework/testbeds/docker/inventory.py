"""Inventory of the containers that run, as the engine reports it: id, address, image digest, start time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from framework.errors import DeploymentFailed
from framework.model import Container
from framework.testbeds.docker.connection import in_parallel
from framework.testbeds.docker.document import Wanted
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.listed import Listed

STANDIN = "tailor.standin"


def describe_containers(engine: Engine, listed: Mapping[str, Listed], want: Wanted) -> tuple[str, dict[str, Container]]:
    """Describe the containers that go on running: (network that most services share, service -> container).

    Raises DeploymentFailed when a container restarted while it came up, or has stopped.
    """
    networks = Counter(name for container in listed.values() for name in container.addresses)
    network = max(networks, key=lambda name: (networks[name], name)) if networks else ""
    lasting = {service: container for service, container in listed.items() if container.state != "exited"}
    images = {container.image_id for container in lasting.values()}
    details = dict(zip(images, in_parallel(engine.image, images), strict=True))

    def describe(service: str) -> Container:
        about = engine.inspect(lasting[service].id)
        if about is None or not about["State"]["Running"]:
            raise DeploymentFailed("it stopped right after it was ready", service, engine.logs(lasting[service].id))
        if about.get("RestartCount"):
            raise DeploymentFailed(f"it restarted {about['RestartCount']} times", service, engine.logs(about["Id"]))
        image = details[lasting[service].image_id] or {}
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
            standin=((image.get("Config") or {}).get("Labels") or {}).get(STANDIN) == "true",
        )

    order = [service for service in want.services if service in lasting]
    return network, dict(zip(order, in_parallel(describe, order), strict=True))
