"""Images on the nodes of a swarm: copied, without a registry, from an engine that has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from framework.errors import MissingPrerequisite, TestbedUnavailable
from framework.ports.testbed import Progress
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.engine import Engine
from framework.testbeds.swarm.fleet import Node


class Images:
    """Distribution of images without a registry.  A node's own image is never replaced by another of its name.

    ``source``: the engine whose images count, this machine's; where it has none of a name, the first node's that has
    one, or that can pull it.
    """

    def __init__(self, source: Engine, source_connection: Connection) -> None:
        self._source, self._connection = source, source_connection
        self._done: dict[tuple[str, str], str] = {}  # (node, name) -> id: they do not change during a study

    def distribute(
        self, wanted: Mapping[str, Collection[str]], nodes: Collection[Node], progress: Progress
    ) -> Mapping[str, str]:
        """Make every node have its images; return name -> id.  ``wanted``: id of a node -> names.

        Raises MissingPrerequisite, naming the node and the image.
        """
        names = sorted({name for images in wanted.values() for name in images})
        known = {name: image for (_, name), image in self._done.items()}
        identity = {name: known.get(name) or self._identity(name, nodes) for name in names}
        for node in nodes:
            for name in sorted(wanted.get(node.id, ())):
                if (node.id, name) in self._done:
                    continue
                about = node.engine.image(name)
                if about is None:
                    identity[name] = self._bring(name, identity[name], node, nodes, progress)
                elif about["Id"] != identity[name]:
                    raise MissingPrerequisite(
                        f"node {node} has another image of the name {name}: {about['Id']} there, {identity[name]} here",
                        "pull or build the same one, or give the application's image a name of its own",
                    )
                self._done[node.id, name] = identity[name]
        return identity

    def _identity(self, name: str, nodes: Collection[Node]) -> str:
        """Return the id of an image that all nodes shall have; empty where no engine has it."""
        engines = [self._source, *(node.engine for node in nodes)]
        return next((str(about["Id"]) for engine in engines if (about := _image(engine, name)) is not None), "")

    def _bring(self, name: str, identity: str, node: Node, nodes: Collection[Node], progress: Progress) -> str:
        """Copy an image to a node, or have the node pull one that no engine has; return its id."""
        if not identity:
            problem, about = node.engine.pull(name), node.engine.image(name)
            if problem or about is None:
                raise MissingPrerequisite(
                    f"image {name} is on no engine, and node {node} cannot pull it: {problem}", "build or pull it here"
                )
            return str(about["Id"])
        connection = next(
            source for engine, source in [(self._source, self._connection),
                                          *((other.engine, Connection(endpoint=other.endpoint)) for other in nodes)]
            if (about := _image(engine, name)) is not None and about["Id"] == identity
        )  # fmt: skip
        progress(f"copying image {name} to node {node.host or node.name}")
        target = Connection(endpoint=node.endpoint)
        chunks = connection.ask(f"save image {name}", lambda api: api.get_image(name))

        def load(api: Any) -> None:
            for _ in api.load_image(chunks):  # messages on its progress
                pass

        target.ask(f"load image {name} on node {node}", load)
        about = node.engine.image(name)
        if about is None or about["Id"] != identity:
            raise MissingPrerequisite(f"image {name} did not arrive on node {node}", f"load it there: {identity}")
        return identity


def _image(engine: Engine, name: str) -> Mapping[str, object] | None:
    try:
        return engine.image(name)
    except TestbedUnavailable:
        return None
