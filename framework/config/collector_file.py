"""The configuration of an OpenTelemetry collector with one exporter more.

The user's collector goes on to send spans where it sent them; a copy of its file sends them to Tailor's Jaeger too.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from framework.errors import InputError

EXPORTER = "otlphttp/tailor"


def with_exporter(text: str, endpoint: str, place: str) -> str:
    """Return a collector's configuration whose pipelines of traces export to ``endpoint`` too; comments are kept.

    ``place``: what the text is, for messages.  A pipeline that hands its spans to another one of traces (by a
    connector) is left as it is: each span goes out once.  Raises InputError where there is no pipeline of traces.
    """
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    try:
        document = yaml.load(text)
    except YAMLError as error:
        raise InputError(f"{place}: {str(error).splitlines()[0]}; allowed: a collector's configuration") from error
    pipelines = _pipelines(document)
    if not pipelines:
        raise InputError(f"{place}: found no pipeline of traces (service.pipelines.traces), so it gets no spans")
    document["exporters"] = document.get("exporters") or {}
    if EXPORTER in document["exporters"]:
        raise InputError(f"{place}: found the exporter {EXPORTER}; allowed: another name, this one is Tailor's")
    document["exporters"][EXPORTER] = {"endpoint": endpoint, "tls": {"insecure": True}}
    inputs = {name for pipeline in pipelines.values() for name in pipeline.get("receivers") or ()}
    for pipeline in pipelines.values():
        outputs: Sequence[str] = pipeline.get("exporters") or ()
        if not inputs & set(outputs):
            pipeline["exporters"] = [*outputs, EXPORTER]
    buffer = io.StringIO()
    yaml.dump(document, buffer)
    return buffer.getvalue()


def _pipelines(document: Any) -> Mapping[str, Any]:
    """Return name -> pipeline of those of traces."""
    service = document.get("service") if isinstance(document, Mapping) else None
    pipelines = service.get("pipelines") if isinstance(service, Mapping) else None
    if not isinstance(pipelines, Mapping):
        return {}
    return {
        name: pipeline
        for name, pipeline in pipelines.items()
        if str(name).partition("/")[0] == "traces" and isinstance(pipeline, Mapping)
    }
