"""Rendering: a configuration and a placement in, complete compose documents out.

It reads the mounted files that it edits, and nothing else.  A parameter at its default is not written: the default
configuration is the user's own document, and the read-back proves that the server has the default that the knowledge
base states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from framework.compose.agents import mount_of
from framework.compose.arguments import type_of
from framework.compose.collector import add_exporter
from framework.compose.files import with_absolute_paths
from framework.compose.fitted import fitted
from framework.compose.hosts import Network, document_of, hosts_of, on_one_host
from framework.compose.placed import CPUSET, HOST, expected, moved, on_host, placed
from framework.compose.placeholders import default_values, filled, shown_in
from framework.compose.service import Rendered, apply_settings, with_item
from framework.compose.service_files import GivenFiles, Setting, configs_of
from framework.config.space import parameters_of
from framework.errors import InputError, UnknownName
from framework.model import Application, Deployment, ParameterDefinition, Placement, Service, ServiceType
from optimizer.space import Configuration, Value


def render(
    application: Application,
    types: Mapping[str, ServiceType],
    configuration: Configuration,
    *,
    project: str,
    labels: Mapping[str, str],
    placement: Placement | None = None,
    fresh: Literal["all", "changed"] = "all",
    network: Network = "local",
) -> Deployment:
    """Render the deployment of ``configuration``; parameters that it leaves out keep their defaults.

    ``types`` are resolved for the host (``framework.config.knowledge.resolved``).  Without ``placement`` everything
    goes into one document under the host "local".  ``network`` "overlay": every network is an attachable overlay named
    ``<project>_<network>`` that exists already.  Raises UnknownName on a parameter that is not tuned, InputError and
    FileError where a parameter does not fit the application's files.
    """
    kinds = {service.name: type_of(application, types, service) for service in application.services}
    place = placed(placement or on_one_host(application), kinds, configuration)
    hosts = hosts_of(application, place)
    settings = {
        service.name: _settings(
            application, types, service, configuration, pinned=bool(place.cpusets.get(service.name))
        )
        for service in application.services
    }
    _check_names(application, settings, configuration)
    files = _files(application, types, settings)
    elsewhere = moved(settings, configuration)
    rendered = {
        name: _rendered(application, name, listed, place, elsewhere, labels, files[name])
        for name, listed in settings.items()
    }
    documents = {
        host: document_of(
            application,
            {name: result.entry for name, result in rendered.items() if place.hosts[name] == host},
            project=project,
            network=network,
            alone=len(hosts) == 1,
        )
        for host in hosts
    }
    return Deployment(
        application=application.name,
        project=project,
        configuration=configuration,
        documents=documents,
        files={name: text for result in rendered.values() for name, text in result.files.items()},
        expectations=tuple(expectation for result in rendered.values() for expectation in result.expectations),
        live=tuple(command for result in rendered.values() for command in result.live),
        labels=dict(labels),
        fresh=fresh,
        roots=tuple(dict.fromkeys((*application.roots, *application.agents.values()))),
        types={name: kind for name, kind in kinds.items() if kind is not None},
        reached=_reached(application),
        every_volume=application.data_source is not None,
        hosts=elsewhere,
    )


def _check_names(application: Application, settings: Mapping[str, list[Setting]], configuration: Configuration) -> None:
    """Check that a configuration has no parameter that is not tuned.  Raises UnknownName."""
    used = {f"{service.name}.{kind}" for service in application.services for kind in (CPUSET, HOST)}
    for service in application.services:
        names = [setting.parameter.name for setting in settings[service.name]]
        used |= {f"{service.name}.{name}" for name in names if name not in service.fixed}
    for name in configuration:
        if name not in used:
            raise UnknownName(f"parameter of {application.name}:", name, used)


def _files(
    application: Application, types: Mapping[str, ServiceType], settings: Mapping[str, list[Setting]]
) -> dict[str, GivenFiles]:
    """Return service -> its compose configs and its templates, with this configuration's values.  Raises FileError."""
    configs = {name: configs_of(application, name) for name in settings}
    if not any(service.templates for service in application.services):
        return {name: GivenFiles(texts) for name, texts in configs.items()}
    values = default_values(application, types)
    for name, listed in settings.items():
        values |= {f"{name}.{setting.parameter.name}": setting.text for setting in listed}
    shown = shown_in(application, values)
    return {
        service.name: GivenFiles(
            configs[service.name],
            {path: filled(template, values) for path, template in service.templates.items()},
            shown,
        )
        for service in application.services
    }


def _rendered(
    application: Application,
    service: str,
    settings: list[Setting],
    place: Placement,
    elsewhere: Mapping[str, str],
    labels: Mapping[str, str],
    files: GivenFiles,
) -> Rendered:
    """Return a service with its settings, its CPUs, the host that it was moved to, and Tailor's labels."""
    cpuset = place.cpusets.get(service, "")
    entry = with_absolute_paths(application.compose["services"][service], application.base)
    environment, image = application.environment_of(service), application.images.get(service)
    result = apply_settings(service, entry, settings, environment, image, files)
    if service in application.agents:
        result.entry["volumes"] = [*(result.entry.get("volumes") or []), mount_of(application.agents[service])]
    if application.tracing is not None and service == application.tracing.collector:
        add_exporter(application, application.tracing, result)
    if cpuset:
        result.entry["cpuset"] = cpuset
        result.expectations.append(expected(service, cpuset))
    if service in elsewhere:
        result.entry["deploy"] = on_host(result.entry.get("deploy"), elsewhere[service])
    for name, text in labels.items():
        result.entry["labels"] = with_item(result.entry.get("labels"), name, text.replace("$", "$$"))
    return result


def _reached(application: Application) -> tuple[str, ...]:
    """Return the services that the load generator calls: the entry, and the one that takes its spans."""
    tracing = application.tracing_service
    return tuple(dict.fromkeys(filter(None, (application.entry, tracing))))


def _settings(
    application: Application,
    types: Mapping[str, ServiceType],
    service: Service,
    configuration: Configuration,
    *,
    pinned: bool,
) -> list[Setting]:
    """Return the value of each parameter of a service; of a service that is not tuned, only of its fixed ones."""
    settings = []
    for parameter in parameters_of(*fitted(application, types, service)):
        fixed = service.fixed.get(parameter.name)
        if fixed is not None:
            settings.append(Setting(parameter, _checked(service, parameter, fixed), written=True, own=True))
        elif service.tuned:
            default = _default(service, parameter)
            value = configuration.get(f"{service.name}.{parameter.name}", default)
            # A server that may use only some CPUs would choose other defaults, so the host's are written.
            present = f"{service.name}.{parameter.name}" in application.present
            settings.append(Setting(parameter, value, written=pinned or value != default, present=present))
    return settings


def _default(service: Service, parameter: ParameterDefinition) -> Value:
    if parameter.kind in ("integer", "real") and isinstance(parameter.default, str):
        raise InputError(
            f"{service.name}.{parameter.name}: the default is still the expression {parameter.default!r}; "
            "pass types through framework.config.knowledge.resolved(types, cores=..., memory_mib=...) first"
        )
    return parameter.default


def _checked(service: Service, parameter: ParameterDefinition, value: Value) -> Value:
    """Check that a fixed value is of the parameter's kind; it may be outside the tuned range.  Raises InputError."""
    kinds: dict[str, type | tuple[type, ...]] = {"integer": int, "real": (int, float), "boolean": bool}
    if parameter.kind == "categorical":
        fits = (type(value), value) in [(type(choice), choice) for choice in parameter.choices]
    else:
        fits = isinstance(value, kinds[parameter.kind]) and isinstance(value, bool) == (parameter.kind == "boolean")
    if not fits:
        allowed = f"one of {list(parameter.choices)}" if parameter.choices else f"a value of kind {parameter.kind}"
        raise InputError(f"{service.name}: fixed.{parameter.name}: found {value!r}; allowed: {allowed}, or default")
    return float(value) if parameter.kind == "real" else value
