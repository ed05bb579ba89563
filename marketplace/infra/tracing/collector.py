"""Send spans to a collector of OpenTelemetry.

The trace context of clients is ignored, because any client could switch sampling on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from marketplace.infra import texts
from marketplace.infra.settings import Settings, SettingsError
from marketplace.kernel.tracing import Span, SpanKind, SpanValue, use_tracer


class OpenTelemetryTracer:
    """A tracer that creates spans of OpenTelemetry."""

    def __init__(self, provider: Any) -> None:
        # The packages are large, and unused without a collector.
        from opentelemetry import propagate, trace  # noqa: PLC0415

        self._tracer = provider.get_tracer("marketplace")
        self._trace = trace
        self._propagate = propagate

    @contextmanager
    def span(
        self, name: str, kind: SpanKind, attributes: dict[str, SpanValue], parent: str
    ) -> Iterator[Span]:
        """Open a span. An error marks the span with the type of the error, without the message."""
        context = self._propagate.extract({"traceparent": parent}) if parent else None
        with self._tracer.start_as_current_span(
            name,
            context=context,
            kind=self._trace.SpanKind[kind.upper()],
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            try:
                yield opened
            except BaseException as error:
                opened.set_attribute("error.type", type(error).__name__)
                opened.set_status(self._trace.StatusCode.ERROR)
                raise

    def current_parent(self) -> str:
        """Return the ``traceparent`` of the current span; empty without a span."""
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        return carrier.get("traceparent", "")


def configure_tracing(settings: Settings, *, process: str) -> Any:
    """Send the spans of this process to OTLP_TRACES_URL. Without the setting, create no spans.

    Call the function before the database is opened.

    :param process: the kind of the process, such as ``web``
    :return: the provider of the spans, or None
    :raises SettingsError: the packages of the extra ``tracing`` are not installed
    """
    if not settings.otlp_traces_url:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(texts.TRACING_NOT_INSTALLED) from error
    resource = Resource.create(
        {
            "service.name": "campus-marketplace",
            "service.version": settings.build_revision,
            "deployment.environment.name": settings.environment,
            "marketplace.process": process,
        }
    )
    provider = TracerProvider(
        resource=resource, sampler=ParentBased(TraceIdRatioBased(settings.trace_percent / 100))
    )
    # The processor restarts its thread after a fork.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.otlp_traces_url)))
    use_tracer(OpenTelemetryTracer(provider))
    return provider
