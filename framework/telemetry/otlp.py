"""Export of spans by OTLP over HTTP, set up by the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT and others)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

import framework

UNNAMED = "unknown_service"  # the library's default


class _StudyIds(RandomIdGenerator):
    """Generator of one trace id per study, which stays when the study is stopped and resumed."""

    def __init__(self, study: str) -> None:
        self._trace = int(hashlib.sha256(study.encode()).hexdigest()[:32], 16)

    def generate_trace_id(self) -> int:
        return self._trace


def resource() -> Resource:
    """Return the resource of the spans: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES, else the service "tailor"."""
    own = {"service.version": framework.__version__}
    named = Resource.create(own)
    if str(named.attributes.get("service.name", "")).startswith(UNNAMED):
        return Resource.create({**own, "service.name": "tailor"})
    return named


class OtlpSpans:
    """SpanSink that exports by OTLP; spans that cannot be delivered are dropped, so that a study never waits."""

    def __init__(self) -> None:
        self._processor = BatchSpanProcessor(OTLPSpanExporter(timeout=5))
        self._resource = resource()
        self._tracers: dict[str, trace.Tracer] = {}

    def begin(self, study: str, name: str, parent: object | None, attributes: Mapping[str, Any]) -> object:
        context = trace.set_span_in_context(parent) if isinstance(parent, trace.Span) else None
        return self._tracer(study).start_span(name, context, attributes=dict(attributes))

    def end(self, span: object, attributes: Mapping[str, Any], error: str) -> None:
        assert isinstance(span, trace.Span)
        span.set_attributes(dict(attributes))
        if error:
            span.set_status(trace.StatusCode.ERROR, error)
        span.end()

    def flush(self) -> None:
        self._processor.force_flush(5_000)

    def _tracer(self, study: str) -> trace.Tracer:
        if study not in self._tracers:
            provider = TracerProvider(resource=self._resource, id_generator=_StudyIds(study), shutdown_on_exit=False)
            provider.add_span_processor(self._processor)
            self._tracers = {study: provider.get_tracer("tailor")}  # the latest only: a process may see thousands
        return self._tracers[study]
