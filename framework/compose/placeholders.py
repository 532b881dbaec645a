"""Placeholders ``${service.parameter}`` in the application's own templates; ``$${`` stands for ``${``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from framework.compose.amounts import written
from framework.compose.arguments import filled_in
from framework.config.checked import did_you_mean
from framework.config.space import DEFAULT, definitions_of
from framework.errors import FileError, InputError
from framework.model import Application, Passed, Service, ServiceType, Template

_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<name>[^}\n]*)(?P<end>\}?)")


def names_in(template: Template) -> Iterator[tuple[str, int]]:
    """Yield the names in a template's placeholders, each with its line."""
    for number, line in enumerate(template.text.splitlines(), 1):
        for match in _PLACEHOLDER.finditer(line):
            if match["name"] is not None:
                yield match["name"] + ("" if match["end"] else " (without })"), number


def filled(template: Template, values: Mapping[str, str]) -> str:
    """Return a template's text with values for its placeholders.  Raises FileError for a name that there is not."""
    for name, line in names_in(template):
        if name not in values:
            near = did_you_mean(name, values)
            allowed = f"a parameter as service.parameter{near}; $${{ stands for a literal ${{"
            raise FileError(template.file, f"line {line}", f"${{{name}}}", allowed)
    return _PLACEHOLDER.sub(lambda match: "${" if match["name"] is None else values[match["name"]], template.text)


def default_values(application: Application, types: Mapping[str, ServiceType]) -> dict[str, str]:
    """Return ``service.parameter`` -> text of its default, of every parameter.  Raises UnknownName."""
    values = {}
    for service in application.services:
        for parameter in definitions_of(*filled_in(application, types, service)):
            name = f"{service.name}.{parameter.name}"
            present = application.present.get(name)
            value = parameter.default if present is None else present.value
            fixed = service.fixed.get(parameter.name, DEFAULT)
            values[name] = written(parameter.apply, value if fixed == DEFAULT else fixed)
    return values


def default_texts(application: Application, types: Mapping[str, ServiceType]) -> dict[str, dict[str, str]]:
    """Return service -> path -> text of its templates at the default.  Raises UnknownName, FileError."""
    if not any(service.templates for service in application.services):
        return {}
    values = default_values(application, types)
    return {
        service.name: {path: filled(template, values) for path, template in service.templates.items()}
        for service in application.services
    }


def shown_in(application: Application, values: Mapping[str, str]) -> dict[str, Passed]:
    """Return ``service.parameter`` -> the line of a template that shows its value, of each that a template names."""
    places: dict[str, Passed] = {}
    for service in application.services:
        for path, template in service.templates.items():
            lines = filled(template, values).splitlines()
            for name, number in names_in(template):
                # A value of several lines would move those behind it; parameters have none.
                places.setdefault(name, Passed("file", path, lines[number - 1].strip(), service=service.name))
    return places


def check_templates(application: Application, types: Mapping[str, ServiceType]) -> None:
    """Check that every placeholder has a parameter, and every parameter without another way a placeholder.

    Raises UnknownName, FileError, InputError.
    """
    default_texts(application, types)
    named = {
        name
        for service in application.services
        for template in service.templates.values()
        for name, _ in names_in(template)
    }
    for service in application.services:
        for parameter in definitions_of(application, types, service) if service.tuned else ():
            name = f"{service.name}.{parameter.name}"
            if parameter.apply.kind == "template" and name not in named and not _left_alone(service, parameter.name):
                raise InputError(
                    f"{application.name}: {name} has no `apply`, and no template has ${{{name}}}: "
                    "its value would reach nothing"
                )


def _left_alone(service: Service, parameter: str) -> bool:
    return service.fixed.get(parameter) == DEFAULT
