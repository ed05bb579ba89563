"""The spans that this process creates during a test."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from marketplace.infra.tracing.collector import OpenTelemetryTracer
from marketplace.kernel.tracing import use_tracer


@pytest.fixture
def exporter() -> Iterator[InMemorySpanExporter]:
    """The spans of this process."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_tracer(OpenTelemetryTracer(provider))
    yield exporter
    use_tracer(None)


def trace_of(spans: tuple[ReadableSpan, ...], name: str) -> list[ReadableSpan]:
    """Return the spans of the trace whose root has a name."""
    [root] = [one for one in spans if one.name == name and one.parent is None]
    return [one for one in spans if one.context.trace_id == root.context.trace_id]
