"""What runs for each service, as the engine reports it: identity, address, image digest, start time."""

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
    """(the network that most services share, service -> container) of what keeps running.

    Raises DeploymentFailed when a container restarted on its way up or is gone.
    """
    networks = Counter(name for container in listed.values() for name in container.addresses)
    network = max(networks, key=lambda name: (networks[name], name)) if networks else ""
    lasting = {service: container for service, container in listed.items() if container.state != "exited"}
    images = {c.image_id for c in lasting.values()}
    facts = dict(zip(images, in_parallel(engine.image, images), strict=True))

    def one(service: str) -> Container:
        found = engine.inspect(lasting[service].id)
        if found is None or not found["State"]["Running"]:
            raise DeploymentFailed("it stopped right after it was ready", service, engine.logs(lasting[service].id))
        if found.get("RestartCount"):
            raise DeploymentFailed(f"it restarted {found['RestartCount']} times", service, engine.logs(found["Id"]))
        image = facts[lasting[service].image_id] or {}
        digests = image.get("RepoDigests") or []
        attached = found["NetworkSettings"]["Networks"]
        address = (attached.get(network) or {}).get("IPAddress") or ""
        return Container(
            service=service,
            id=found["Id"],
            name=found["Name"].lstrip("/"),
            image=found["Config"]["Image"],
            image_digest=digests[0].partition("@")[2] if digests else found["Image"],
            address=address or next((n["IPAddress"] for n in attached.values() if n.get("IPAddress")), ""),
            pid=int(found["State"]["Pid"]),
            started_at=found["State"]["StartedAt"],
            standin=((image.get("Config") or {}).get("Labels") or {}).get(STANDIN) == "true",
        )

    order = [service for service in want.services if service in lasting]
    return network, dict(zip(order, in_parallel(one, order), strict=True))
