"""Spans of traces. Without a tracer, a span costs an attribute check.

Spans never have values of parameters, paths with ids, or messages of errors.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol

SpanKind = Literal["server", "client", "consumer", "internal"]
SpanValue = str | int | float | bool


class Span(Protocol):
    """A step of a trace."""

    def set_attribute(self, key: str, value: SpanValue) -> Any:
        """Set an attribute of the span."""


class Tracer(Protocol):
    """Creates the spans of this process."""

    def span(
        self, name: str, kind: SpanKind, attributes: dict[str, SpanValue], parent: str
    ) -> AbstractContextManager[Span]:
        """Return the context of a span."""

    def current_parent(self) -> str:
        """Return the ``traceparent`` of the current span (https://www.w3.org/TR/trace-context/)."""


class _NoSpan:
    def set_attribute(self, key: str, value: SpanValue) -> None:
        pass


class _Current:
    tracer: Tracer | None = None


_NO_SPAN: AbstractContextManager[Span] = nullcontext(_NoSpan())
_current = _Current()


def use_tracer(tracer: Tracer | None) -> None:
    """Set the tracer of this process. None turns tracing off."""
    _current.tracer = tracer


def is_tracing() -> bool:
    """Return whether this process creates spans."""
    return _current.tracer is not None


def span(
    name: str, *, kind: SpanKind = "internal", parent: str = "", **attributes: SpanValue
) -> AbstractContextManager[Span]:
    """Return the context of a span.

    :param parent: the ``traceparent`` of another process; empty for the current span of this process
    :param attributes: by name, with double underscores in place of dots
    """
    if _current.tracer is None:
        return _NO_SPAN
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return _current.tracer.span(name, kind, named, parent)


def current_parent() -> str:
    """Return the ``traceparent`` of the current span for another process; empty without a span."""
    return "" if _current.tracer is None else _current.tracer.current_parent()
