"""Recognition of service types by image, command, health check, variables and ports, with certainty and reason."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from framework.compose.command import words_of
from framework.model import Application, ImageFacts, ServiceType, Signs
from framework.ports.testbed import GO_PROGRAM

Certainty = Literal["certain", "likely", "a guess"]
_ORDER: Mapping[Certainty, int] = {"certain": 0, "likely": 1, "a guess": 2}
_SEPARATORS = re.compile(r"[\s;&|()'\"=]+")


@dataclass(frozen=True, slots=True)
class Recognised:
    """The type of a service.  ``reason``: its sign.  ``tier``, ``speaks_http``: of the type."""

    type: str
    certainty: Certainty
    reason: str
    tier: str = "program"
    speaks_http: bool = True


def recognise(
    application: Application, service: str, types: Mapping[str, ServiceType], running: Sequence[str] = ()
) -> Recognised | None:
    """Return the type of a service, by its strongest sign; None where there is no sign of any type.

    ``running``: programs that were seen in it; that Go built one counts less than the name of a known program.
    Of two types with equally strong signs, the one that builds on the other is meant.
    """
    entry = application.compose["services"][service]
    facts = application.images.get(service)
    environment = application.environments.get(service, {})
    candidates = [
        Recognised(name, certainty, reason, kind.tier, kind.speaks_http)
        for name, kind in types.items()
        for certainty, reason in (
            *_signs_of(kind.signs, entry, environment, facts),
            *((_certainty(program), f"it runs {program}") for program in running if program in kind.signs.programs),
        )
    ]
    candidates.sort(key=lambda seen: (_ORDER[seen.certainty], -_depth(types, seen.type), seen.type))
    return candidates[0] if candidates else None


def _certainty(program: str) -> Certainty:
    return "likely" if program == GO_PROGRAM else "certain"


_VERSION_AT_END = re.compile(r"-?[0-9]+(\.[0-9]+)+\Z")  # with a dot: node1 is the name of a node, no version


def _signs_of(
    signs: Signs, entry: Mapping[str, Any], environment: Mapping[str, str], facts: ImageFacts | None
) -> Iterator[tuple[Certainty, str]]:
    image = image_path(str(entry.get("image") or ""))
    name = posixpath.basename(image)
    for pattern in signs.images:
        if re.fullmatch(pattern, name) or re.fullmatch(pattern, image):
            yield "certain", f"its image is {entry['image']}"
    programs = set(_programs(entry, facts))
    for program in signs.programs:
        if program in programs:
            yield "certain", f"it runs {program}"
    for variable in signs.variables:
        if facts is not None and variable in facts.environment:
            yield "likely", f"its image sets {variable}"
        elif variable in environment:
            yield "likely", f"its environment has {variable}"
    for pattern in signs.images:
        if re.search(rf"(^|[-_./])({pattern})($|[-_.])", name):
            yield "likely", f"its image is called {entry['image']}"
    ports = {*(facts.ports if facts is not None else ()), *listening(entry)}
    for port in signs.ports:
        if port in ports:
            yield "a guess", f"it listens on port {port}"


def image_path(image: str) -> str:
    """Return an image's name without registry, tag and digest: ``bitnami/redis`` of ``docker.io/bitnami/redis:7``."""
    name = image.partition("@")[0]
    head, _, tail = name.rpartition("/")
    name = f"{head}/{tail.partition(':')[0]}".lstrip("/")
    first, separator, rest = name.partition("/")
    return rest if separator and ("." in first or ":" in first or first == "localhost") else name


def ports_of(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (port on the user's machine, port of the container) of ``ports``; the first is empty where it is free."""
    pairs = []
    for port in entry.get("ports") or ():
        if isinstance(port, Mapping):
            pairs.append((str(port.get("published") or ""), str(port.get("target", ""))))
        else:
            before, _, target = str(port).partition("/")[0].rpartition(":")
            pairs.append((before.rpartition(":")[2], target))
    return pairs


def listening(entry: Mapping[str, Any]) -> set[int]:
    """Return the ports that a compose entry says a service listens on: of ``ports`` and ``expose``."""
    return {int(target) for _, target in ports_of(entry) if target.isdigit()} | {
        int(str(port).partition("/")[0]) for port in entry.get("expose") or [] if str(port).partition("/")[0].isdigit()
    }


def _programs(entry: Mapping[str, Any], facts: ImageFacts | None) -> Iterator[str]:
    """Yield the base names of the words of command, entry point and health check; also without a version at the end."""
    given = [words_of(entry.get("command")), words_of(entry.get("entrypoint"))]
    if facts is not None:
        given[0] = given[0] if given[0] is not None else list(facts.command)
        given[1] = given[1] if given[1] is not None else list(facts.entrypoint)
    test = (entry.get("healthcheck") or {}).get("test")
    given.append(words_of(test))
    for words in given:
        for word in words or ():
            for piece in _SEPARATORS.split(word):
                if piece:
                    program = posixpath.basename(piece)
                    yield program
                    yield _VERSION_AT_END.sub("", program)  # Debian's php-fpm8.2


def _depth(types: Mapping[str, ServiceType], name: str) -> int:
    """Return how many types a type builds on."""
    depth = 0
    while name in types and types[name].builds_on and depth < len(types):
        name, depth = types[name].builds_on, depth + 1
    return depth
