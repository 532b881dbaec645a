"""Arguments of a service type: what its probes have to know of one service, such as its port and its password."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework.compose.command import Command
from framework.compose.files import mounted, with_absolute_paths
from framework.config.reading import read_text
from framework.errors import FileError, InputError, UnknownName
from framework.model import Application, Argument, ParameterDefinition, Probe, Service, ServiceType

_SECRETS = "/run/secrets"


def type_of(application: Application, types: Mapping[str, ServiceType], service: Service) -> ServiceType | None:
    """Return a service's type with the service's own arguments in its probes and parameters; None without a type.

    Raises UnknownName for an argument that the type does not have, InputError where a port is no number.
    """
    kind = types.get(service.type) if service.type else None
    if kind is None:
        return None
    for name in service.arguments:
        if name not in kind.arguments:
            raise UnknownName(f"argument of {application.name}'s {service.name} ({kind.name}):", name, kind.arguments)
    if not kind.arguments:
        return kind
    texts = arguments_of(application, kind, service)
    return _filled_type(kind, texts, service.name)


def filled_in(
    application: Application, types: Mapping[str, ServiceType], service: Service
) -> tuple[Application, Mapping[str, ServiceType], Service]:
    """Return the application, the types and a service with the service's arguments in all that has parameters.

    They are what ``parameters_of`` wants.  Raises UnknownName, InputError.
    """
    kind = type_of(application, types, service)
    if kind is None or not kind.arguments:
        return application, types, service
    texts = arguments_of(application, kind, service)
    own = tuple(_filled_parameter(parameter, texts, service.name) for parameter in service.parameters)
    return application, {**types, service.type: kind}, replace(service, parameters=own)


def _filled_type(kind: ServiceType, texts: Mapping[str, str], service: str) -> ServiceType:
    def filled(probe: Probe) -> Probe:
        return probe_with(probe, texts, service)

    return replace(
        kind,
        ready=filled(kind.ready) if kind.ready is not None else None,
        reset=tuple(tuple(with_arguments(word, texts) for word in step) for step in kind.reset),
        statistics={name: filled(probe) for name, probe in kind.statistics.items()},
        parameters=tuple(_filled_parameter(parameter, texts, service) for parameter in kind.parameters),
    )


def _filled_parameter(parameter: ParameterDefinition, texts: Mapping[str, str], service: str) -> ParameterDefinition:
    """Return a parameter with arguments in its probe, its flag, its variable and its changes of files."""
    apply, probe = parameter.apply, parameter.read_back
    edits = tuple(
        replace(
            edit,
            line=with_arguments(edit.line, texts),
            key=with_arguments(edit.key, texts),
            pattern=with_arguments(edit.pattern, {name: re.escape(text) for name, text in texts.items()}),
            after=with_arguments(edit.after, {name: re.escape(text) for name, text in texts.items()}),
        )
        for edit in apply.edits
    )
    return replace(
        parameter,
        apply=replace(
            apply,
            template=with_arguments(apply.template, texts),
            flags=tuple(with_arguments(flag, texts) for flag in apply.flags),
            edits=edits,
        ),
        read_back=probe_with(probe, texts, service) if probe is not None else None,
    )


def arguments_of(application: Application, kind: ServiceType, service: Service) -> dict[str, str]:
    """Return the text of each argument of a service.

    It is what application.yaml says, else the command's flag, else an environment variable, else the content of a file
    that one names, else the type's default; in the argument's own form where it is not empty.
    """
    entry = application.compose["services"][service.name]
    environment = application.environment_of(service.name)
    texts = {}
    for name, argument in kind.arguments.items():
        if name in service.arguments:
            value = str(service.arguments[name])
        else:
            value = _given(application, service.name, entry, environment, argument) or argument.default
        texts[name] = argument.text.replace("{value}", value) if value else ""
    return texts


def _given(
    application: Application, service: str, entry: Mapping[str, Any], environment: Mapping[str, str], argument: Argument
) -> str:
    command = Command.of(entry, "", application.images.get(service))
    if argument.flag and (flag := command.find(argument.flag)) is not None:
        text = flag.text.replace("$$", "$")
        return _expanded(text, environment) if command.line else text
    for variable in argument.environment:
        if environment.get(variable):
            return environment[variable].replace("$$", "$")
    for variable in argument.files:
        if environment.get(variable):
            return _content(application, service, entry, environment[variable])
    return ""


def _expanded(text: str, environment: Mapping[str, str]) -> str:
    """Put variables in, as a shell does: ``$NAME`` and ``${NAME}``; one that is not known becomes nothing."""
    return re.sub(
        r"\$(?:\{(\w+)\}|(\w+))",
        lambda variable: environment.get(variable[1] or variable[2], "").replace("$$", "$"),
        text,
    )


def _content(application: Application, service: str, entry: Mapping[str, Any], path: str) -> str:
    """Return the text of a file that a service sees at ``path``, a secret or a mounted file; empty for neither."""
    declared = application.compose.get("secrets") or {}
    for secret in entry.get("secrets") or []:
        source = str(secret.get("source") if isinstance(secret, Mapping) else secret)
        target = str((secret.get("target") if isinstance(secret, Mapping) else None) or source)
        file = (declared.get(source) or {}).get("file")
        if posixpath.join(_SECRETS, target) == path and file:
            return read_text(Path(application.base, str(file))).strip()
    try:
        volumes: Sequence[Any] = with_absolute_paths(entry, application.base).get("volumes") or []
        return mounted(service, list(volumes), path).text.strip()
    except (InputError, FileError):
        return ""


def probe_with(probe: Probe, texts: Mapping[str, str], service: str) -> Probe:
    """Return a probe with arguments filled in.  Raises InputError where its port is no number."""
    port = with_arguments(str(probe.port), texts) if probe.port is not None else None
    if port is not None and not port.isdigit():
        raise InputError(f"{service}: its port: found {port!r}; allowed: a number")
    return replace(
        probe,
        port=int(port) if port is not None else None,
        send=with_arguments(probe.send, texts),
        path=with_arguments(probe.path, texts),
        command=tuple(with_arguments(word, texts) for word in probe.command),
    )


def with_arguments(text: str, texts: Mapping[str, str]) -> str:
    """Fill ``{name}`` of each argument into a text; ``${name}`` is a shell's, and other braces stay."""
    return re.sub(r"(?<!\$)\{(\w+)\}", lambda match: texts.get(match[1], match[0]), text)
