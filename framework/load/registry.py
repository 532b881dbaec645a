"""Registry of load generators.  application.yaml names one; a file of this folder, or another package, registers it."""

from __future__ import annotations

from collections.abc import Callable

from framework.model import Application
from framework.ports.load import LoadGenerator
from framework.ports.side_containers import SideContainers
from framework.registry import Registry

GENERATORS: Registry[Callable[[Application, SideContainers], LoadGenerator]] = Registry(
    "load generator", "tailor.load_generators", "framework.load"
)
