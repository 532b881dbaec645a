"""Compose files read by compose itself: ``docker compose config``, which needs no engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from framework.config.compose_files import REMEDY, TAGS, files_of, variables_of
from framework.config.document import KeyPath, read_document
from framework.errors import FileError, MissingPrerequisite
from framework.ports.compose import ComposeSource, ResolvedCompose
from framework.testbeds.docker.compose_command import ComposeCommand

OWN = "TAILOR_"  # settings of Tailor's, which no compose file sees
HOOKS = "tailor"  # the profile of an application's one-shots
NEEDED = ("PATH", "HOME", "DOCKER_CONFIG")  # variables by which the command finds itself
TIMEOUT_S = 60.0
NOTHING_REMOTE = {"COMPOSE_EXPERIMENTAL_GIT_REMOTE": "false", "COMPOSE_EXPERIMENTAL_OCI_REMOTE": "false"}
_UNSET = re.compile(r'The \\?"(\w+)\\?" variable is not set')
_REQUIRED = re.compile(r"required variable (?P<name>\w+) is missing a value(?P<message>: .*)?")
_PLACE = re.compile(r"(?P<key>(?:services|volumes|networks|configs|secrets)\.[\w.\[\]-]+)")
_YAML_LINE = re.compile(r"(?:^|\s)yaml: (?:line (?P<line>\d+): )?(?P<problem>.*)")


@dataclass(frozen=True, slots=True)
class ComposeConfig:
    """Reads compose files; ``passed``: names of this process's variables that they may see."""

    passed: tuple[str, ...] = ()

    def resolve(self, source: ComposeSource) -> ResolvedCompose:
        """Resolve the files; see ``framework.ports.compose``.  Files that did not change are resolved once."""
        files = files_of(source)
        stamps = tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
        visible = {name: os.environ[name] for name in self.passed if name in os.environ and not name.startswith(OWN)}
        return _resolved(source, stamps, tuple(sorted(visible.items())))


@lru_cache(maxsize=64)
def _resolved(
    source: ComposeSource, stamps: tuple[tuple[Path, int, int], ...], passed: tuple[tuple[str, str], ...]
) -> ResolvedCompose:
    files = tuple(path for path, *_ in stamps)
    variables = dict(passed)
    _refuse_withheld(files, variables.keys(), NEEDED)
    document, unset = _config(source, files, variables)
    _refuse_withheld(files, variables.keys(), [name for name in unset if name in os.environ])
    return ResolvedCompose(
        document,
        {
            name: {key: str(value) for key, value in (service.get("environment") or {}).items() if value is not None}
            for name, service in document["services"].items()
        },
        tuple(unset),
    )


def _refuse_withheld(files: Collection[Path], passed: Collection[str], names: Collection[str]) -> None:
    """Raise FileError where a file mentions one of these variables, set here, that the operator did not pass on."""
    for path in files:
        for name, line in variables_of(path) if path.suffix in (".yaml", ".yml") else ():
            if name in passed or not (name.startswith(OWN) or name in names):
                continue
            allowed = (
                "no settings of Tailor's"
                if name.startswith(OWN)
                else (
                    f"variables of .env or of an environment file; the operator can pass it on: TAILOR_VARIABLES={name}"
                )
            )
            raise FileError(path, f"line {line}", f"the variable {name}, which is set here and not passed on", allowed)


def _config(
    source: ComposeSource, files: Collection[Path], variables: Mapping[str, str]
) -> tuple[dict[str, Any], list[str]]:
    """Run ``compose config``; return the document and the names of variables without a value.  Raises FileError."""
    command = [*_command(), "--project-directory", str(source.directory)]
    for path in source.files:
        command += ["-f", str(path)]
    for path in source.env_files:
        command += ["--env-file", str(path)]
    for profile in (HOOKS, *source.profiles):
        command += ["--profile", profile]
    kept = {name: os.environ[name] for name in NEEDED if name in os.environ}
    try:
        ended = subprocess.run(
            [*command, "config", "--format", "json"],
            capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
            env={**kept, **variables, **NOTHING_REMOTE, "COMPOSE_ANSI": "never"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FileError(source.files[0], "", f"nothing within {TIMEOUT_S:g} s", "files that compose can read") from None
    if ended.returncode != 0:
        raise _error(source, files, ended.stderr)
    document: dict[str, Any] = _without_nothing(json.loads(ended.stdout))
    return document, list(dict.fromkeys(_UNSET.findall(ended.stderr)))


def _command() -> tuple[str, ...]:
    """Return the compose command of the second generation.  Raises MissingPrerequisite."""
    command = ComposeCommand.find()
    if command.old:
        raise MissingPrerequisite(
            f"docker-compose {command.version} cannot read this application's compose files as compose v2 does", REMEDY
        )
    return command.argv


def _without_nothing(document: dict[str, Any]) -> dict[str, Any]:
    """Leave out the keys of services that compose writes without a value, such as ``command: null``."""
    services = {
        name: {key: value for key, value in service.items() if value is not None}
        for name, service in (document.get("services") or {}).items()
    }
    return {**document, "services": services}


def _error(source: ComposeSource, files: Collection[Path], output: str) -> FileError:
    """Return compose's complaint as an error that names the file and, where it is known, the line."""
    lines = [line.strip() for line in output.splitlines() if line.strip() and "level=warning" not in line]
    text = lines[-1] if lines else "no reason"
    if missing := _REQUIRED.search(text):
        name, message = missing["name"], (missing["message"] or "").removeprefix(":").strip()
        for path in files:
            for mentioned, line in variables_of(path) if path.suffix in (".yaml", ".yml") else ():
                if mentioned == name:
                    allowed = f"the variable in .env, in an environment file, or TAILOR_VARIABLES={name}"
                    why = f"no value of {name}{f' ({message})' if message else ''}"
                    return FileError(path, f"line {line}", why, allowed)
    if yaml := _YAML_LINE.search(text):
        return FileError(source.files[0], f"line {yaml['line']}" if yaml["line"] else "", yaml["problem"], "YAML")
    if place := _PLACE.search(text):
        key: KeyPath = tuple(part for part in re.split(r"[.\[\]]+", place["key"]) if part)
        for path in reversed([path for path in files if path.suffix in (".yaml", ".yml")]):
            document = read_document(path, TAGS)
            at = next((key[:size] for size in range(len(key), 1, -1) if key[:size] in document.lines), None)
            if at is not None:
                return document.error(at, _after(text, place["key"]), "what compose accepts")
    return FileError(source.files[0], "", text, "files that `docker compose config` accepts")


def _after(text: str, key: str) -> str:
    """Return what compose says of a key."""
    return text.partition(key)[2].strip(" :,") or text
