"""Images of the engine by their labels: listed, and removed by their owner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framework.errors import DeploymentFailed, InputError
from framework.testbeds.docker.connection import Connection
from framework.testbeds.docker.owner import Owner


class LabelledImages:
    """The images of one engine that bear labels."""

    def __init__(self, connection: Connection) -> None:
        self._ask = connection.ask

    def images(self, label: str) -> list[Mapping[str, Any]]:
        """List the images with ``label`` ("key" or "key=value")."""
        return self._ask("list images", lambda api: api.images(filters={"label": label})) or []

    def remove(self, name: str, owner: Owner) -> bool:
        """Remove the image of this name and nothing that it was built on; False: it is in use, or there is none.

        Raises InputError where it is not ``owner``'s.
        """
        about: Mapping[str, Any] | None = self._ask(
            f"inspect image {name}",
            lambda api: api.inspect_image(name),  # type: ignore[no-untyped-call]
        )
        if about is None:
            return False
        if not owner.owns((about.get("Config") or {}).get("Labels")):
            raise InputError(f"the image {name} was not made for {owner}, and is left alone")
        try:
            self._ask(f"remove image {name}", lambda api: api.remove_image(name, noprune=True) or True)
        except DeploymentFailed:  # a container uses it
            return False
        return True
