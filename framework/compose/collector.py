"""The user's OpenTelemetry collector, which gets an exporter to Tailor's Jaeger in a copy of its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework.compose.command import Command
from framework.compose.files import mounted, remounted
from framework.compose.service import Rendered
from framework.config.collector_file import with_exporter
from framework.errors import InputError
from framework.model import Application
from framework.model.application import Tracing

DEFAULT = "/etc/otelcol/config.yaml"
CONTRIB = "/etc/otelcol-contrib/config.yaml"
"""Configuration that the images of the two distributions start with."""


def add_exporter(application: Application, tracing: Tracing, rendered: Rendered) -> None:
    """Mount a copy of the collector's configuration that exports to the tracing service too.

    Raises InputError where it is not a mounted file, or not understood.
    """
    service = tracing.collector
    path = tracing.collector_file or _path(application, service, rendered)
    volumes = list(rendered.entry.get("volumes") or [])
    try:
        file = mounted(service, volumes, path)
    except InputError:
        raise InputError(
            f"{service}: the collector reads {path}, and the compose file mounts no such file; mount it below "
            "volumes, or name the one that it reads in tracing.collector_file"
        ) from None
    text = with_exporter(file.text, f"http://{tracing.service}:{tracing.otlp_port}", f"{service}: {path}")
    rendered.entry["volumes"], place = remounted(volumes, file, service, path)
    rendered.files[place] = text


def _path(application: Application, service: str, rendered: Rendered) -> str:
    """Return the configuration that the collector's command names, or its image starts with."""
    image = application.images.get(service)
    names = list(_named(Command.of(rendered.entry, "", image).words))
    files = [name.removeprefix("file:") for name in names]
    if len(files) > 1 or any(not name.startswith("/") for name in files):
        raise InputError(
            f"{service}: the collector's command names {', '.join(names)}; allowed: one absolute path, or the one with "
            "the pipeline of traces in tracing.collector_file"
        )
    default = CONTRIB if "contrib" in str(rendered.entry.get("image")) else DEFAULT
    return files[0] if files else default


def _named(words: Sequence[str]) -> Iterator[str]:
    """Yield the values of the flag --config."""
    for index, word in enumerate(words):
        flag, assigned, value = word.partition("=")
        if flag in ("--config", "-config"):
            yield value if assigned else words[index + 1] if index + 1 < len(words) else ""
