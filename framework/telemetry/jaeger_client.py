"""Export of spans by Thrift over UDP to a Jaeger agent, for installations without OTLP: the extra ``jaeger``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from framework.errors import InputError, MissingPrerequisite

FLUSH_S = 5.0  # for the last spans to be sent


class JaegerClientSpans:
    """SpanSink that sends to a Jaeger agent.  ``agent``: host:port.

    Raises MissingPrerequisite without jaeger-client, InputError for an ``agent`` that is not host:port.
    """

    def __init__(self, agent: str, service: str = "tailor") -> None:
        host, _, port = agent.rpartition(":")
        if not host or not port.isdigit():
            raise InputError(f"TAILOR_JAEGER_AGENT: found {agent!r}; allowed: host:port, such as 127.0.0.1:6831")
        try:
            from threadloop import ThreadLoop
            from tornado.ioloop import IOLoop
        except ImportError as error:
            raise MissingPrerequisite(f"jaeger-client ({error})", "pip install 'tailor[jaeger]'") from error
        self._host, self._port, self._service = host, int(port), service
        self._loop = IOLoop(make_current=False)  # one for all studies: the library would leave a thread for each
        ThreadLoop(self._loop).start()
        self._sender: Any = None
        self._tracer: Any = None

    def begin(self, study: str, name: str, parent: object | None, attributes: Mapping[str, Any]) -> object:
        if self._tracer is None:
            self._open()
        return self._tracer.start_span(name, child_of=parent, tags=dict(attributes))

    def end(self, span: Any, attributes: Mapping[str, Any], error: str) -> None:
        for key, value in attributes.items():
            span.set_tag(key, value)
        if error:
            span.set_tag("error", True)
            span.set_tag("error.message", error)
        span.finish()

    def flush(self) -> None:
        """Send the last spans: close the tracer, which sends them only then.  The next study opens another one."""
        if self._tracer is None:
            return
        closing, until = self._tracer.close(), time.monotonic() + FLUSH_S
        while not closing.done() and time.monotonic() < until:  # outside its loop, the future can only be polled
            time.sleep(0.01)
        self._sender.close()
        self._tracer = None

    def _open(self) -> None:
        from jaeger_client.local_agent_net import LocalAgentSender
        from jaeger_client.reporter import Reporter
        from jaeger_client.sampler import ConstSampler
        from jaeger_client.tracer import Tracer

        self._sender = LocalAgentSender(self._host, 5778, self._port, io_loop=self._loop)  # type: ignore[no-untyped-call]
        reporter = Reporter(self._sender, queue_capacity=10_000, batch_size=50, io_loop=self._loop)
        self._tracer = Tracer(self._service, reporter, ConstSampler(True), generate_128bit_trace_id=True)
