"""The catalogue: the service types, applications, search spaces, testbeds and optimizers that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from framework.bench import Backends
from framework.config.application import FILE, is_application
from framework.config.space import parameters_of
from framework.errors import UnknownName
from framework.model import Application, ParameterDefinition, Service, ServiceType, TuneRequest
from framework.placement.domains import domains_on
from framework.study.planning import space_of
from optimizer.registry import load_all
from optimizer.space import SearchSpace


class Catalogue:
    """Everything that one can choose from on this installation."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    def service_types(self) -> Mapping[str, ServiceType]:
        """Return the knowledge base by name, every bound and default as a number on this machine."""
        return self._backends.types_on(self._backends.machine())

    def service_types_named(self, name: str | None) -> Sequence[ServiceType]:
        """Return all service types, or the one of this name.  Raises UnknownName."""
        types = self.service_types()
        if name is not None and name not in types:
            raise UnknownName("service type", name, types)
        return [types[name]] if name else list(types.values())

    def applications(self, directory: Path) -> Sequence[Mapping[str, Any]]:
        """Describe the applications below a directory.  Raises InputError for a file that cannot be used.

        Files of this name that other software has (Spring's) are passed by.
        """
        paths = (path for path in sorted(directory.glob(f"**/{FILE}")) if is_application(path))
        applications = [self._backends.application(path) for path in paths]
        return [
            {
                "name": application.name,
                "directory": str(application.directory),
                "services": len(application.services),
                "parameters": len(self.space(application)),
                "rate_rps": application.workload.rate_rps,
            }
            for application in applications
        ]

    def space(
        self, application: Application, request: TuneRequest | None = None, testbed: str | None = None
    ) -> SearchSpace:
        """Return the search space of an application on a testbed's machine (None: this one).  Raises InputError."""
        request = request or TuneRequest(application.directory)
        machine = self._backends.machine_of(testbed, application) if testbed else self._backends.machine()
        types = self._backends.types_on(machine)
        kind = self._backends.kind(testbed) if testbed else self._backends.kinds[0]
        return space_of(application, request, types, machine, partial(domains_on, kind, application))

    def parameters(self, application: Application) -> Sequence[Mapping[str, Any]]:
        """Describe the parameters of an application on this machine, of its types and its own.  Raises InputError.

        ``from``: where today's value stands, empty where nothing of the user's sets it.  ``reaches``: how a value
        reaches the service.
        """
        types = self.service_types()
        return [
            {
                "name": f"{service.name}.{parameter.name}",
                "kind": parameter.kind,
                "low": parameter.low,
                "high": parameter.high,
                "choices": parameter.choices,
                "default": service.fixed.get(parameter.name, parameter.default),
                "unit": parameter.unit,
                "state": _state(service, parameter),
                "from": present.where if present is not None else "",
                "reaches": parameter.apply.shown,
            }
            for service in application.services
            for parameter in parameters_of(application, types, service)
            for present in [application.present.get(f"{service.name}.{parameter.name}")]
        ]

    def testbeds(self) -> Mapping[str, bool]:
        """Return the names of testbeds, and whether each is a model.

        A testbed of another package is not loaded to find out: of it only the name is known, and it says False.
        """
        known = {kind.name: kind.modelled for kind in self._backends.kinds}
        return known | {name: False for name in sorted(self._backends.plugged_in) if name not in known}

    def optimizers(self) -> Sequence[Mapping[str, Any]]:
        """Return name, summary, source and options of every optimizer; a broken plug-in says why it is."""
        plugins = load_all()
        working = [
            {
                "name": name,
                "summary": kind.summary,
                "source": kind.source,
                "options": {option: known.default for option, known in kind.options_known.items()},
                "needs_budget": kind.needs_budget,
            }
            for name, kind in plugins.working.items()
        ]
        broken = [
            {"name": name, "summary": f"broken: {error}", "source": "", "options": {}, "needs_budget": False}
            for name, error in plugins.broken.items()
        ]
        return working + broken


def _state(service: Service, parameter: ParameterDefinition) -> str:
    """Return whether a study changes a parameter, in one word or two."""
    if parameter.name in service.fixed:
        return "fixed"
    if not service.tuned:
        return "not tuned"
    if parameter.derived:
        return "derived"
    return "tuned" if parameter.weakens == "nothing" else f"weakens {parameter.weakens}"
