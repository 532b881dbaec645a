"""Placements: proposed from a profile, measured against what else one could do, and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from framework.bench import Backends
from framework.compose.placed import HOST
from framework.config.writing import to_yaml, write_text
from framework.model import Application, Study, TuneRequest
from framework.placement.space import baselines
from framework.report.machine_picture import described, machine_picture
from framework.use_cases.catalogue import Catalogue
from framework.use_cases.studies import Studies
from optimizer.space import Configuration, Value


class Placements:
    """Studies of one suggested placement, with baselines beside it."""

    def __init__(self, backends: Backends, catalogue: Catalogue, studies: Studies) -> None:
        self._backends = backends
        self._catalogue = catalogue
        self._studies = studies

    def propose(self, request: TuneRequest) -> Study:
        """Create the study of a request for a placement, without starting it.

        Its verdict compares the suggestion, the load spread evenly and random placements with everything on all CPUs.
        Raises InputError, MissingPrerequisite.
        """
        application = self._backends.application(request.application)
        testbed = self._backends.choose(request.testbed, application).name
        placements = baselines(self._catalogue.space(application, request, testbed), request.seed)
        return self._studies.create(replace(request, rivals=self._write_baselines(application, placements)))

    def write_machine(self, study: Study, configuration: Mapping[str, Value]) -> Path | None:
        """Draw the machine with the services of a placement on it; return the picture's file, None for hosts."""
        if any(name.endswith(f".{HOST}") for name in configuration):
            return None
        application = self._backends.application(study.directory)
        topology = self._backends.kind(study.testbed).topology(application)
        placement = {name.rpartition(".")[0]: str(cpus) for name, cpus in configuration.items()}
        picture = machine_picture(topology, placement, f"{application.name} on {described(topology)}")
        return write_text(self._backends.home / "reports" / f"{study.id}-machine.svg", picture)

    def _write_baselines(self, application: Application, placements: Mapping[str, Configuration]) -> tuple[Path, ...]:
        """Write placements as configuration files below TAILOR_HOME, so that a study can name them."""
        directory = self._backends.home / "placements" / application.name
        return tuple(
            write_text(
                directory / f"{name}.yaml",
                to_yaml({"kind": "configuration", "version": 1, "values": configuration.to_dict()}),
            )
            for name, configuration in placements.items()
        )
