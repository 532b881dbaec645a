"""The Docker testbed that also says what servers tell of themselves, whatever was wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework.model import Expectation, Running, Told
from framework.testbeds.docker.engine import Engine
from framework.testbeds.docker.programs import programs_of
from framework.testbeds.docker.read_back import values_of
from framework.testbeds.docker.testbed import DockerTestbed


class DockerProver(DockerTestbed):
    """Implements ``framework.ports.testbed.Prover``."""

    def values(self, running: Running, expectations: Sequence[Expectation]) -> Mapping[str, Told]:
        """Return ``service.parameter`` -> what its server tells now, whatever was wanted."""
        return values_of(Engine(), expectations, running.containers)

    def programs(self, running: Running) -> Mapping[str, Sequence[str]]:
        """Return service -> the programs of its processes; see the port."""
        named = {service: programs_of(Engine(), container) for service, container in running.containers.items()}
        return {service: programs for service, programs in named.items() if programs}
