"""Redacted logs as lines of JSON with the request's context, and redacted events for the error tracker."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, TextIO

import orjson
import structlog

from marketplace.infra.settings import Settings
from marketplace.kernel.redaction import MARKER, redact

if TYPE_CHECKING:
    from sentry_sdk.types import Event, Hint

EventDict = MutableMapping[str, Any]

# Fields that only this service writes. These fields never contain input of users.
_UNREDACTED_FIELDS = frozenset(
    {"timestamp", "level", "service", "version", "method", "status", "durationMs", "requestId"}
)

# Names that the tracker's integrations use in requests, breadcrumbs and spans.
_QUERY_KEYS = frozenset({"query_string", "http.query", "http.fragment", "url.query", "url.fragment"})
_QUERY_STRING = re.compile(r"""(?<=[\w/])\?[^\s"'<>=]+=[^\s"'<>]*""")


class _RedactingStreamHandler(logging.StreamHandler[TextIO]):
    """A stream handler that logs formatting errors without the record's arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Log a record that could not be formatted. The standard handler would print all arguments unredacted."""
        failure = sys.exc_info()[1]
        # After an OSError the output is closed.
        if not isinstance(failure, OSError):
            structlog.get_logger(__name__).error(
                "log record could not be formatted",
                logger=record.name,
                source=f"{record.filename}:{record.lineno}",
                failure=type(failure).__name__,
            )


def configure_logging(settings: Settings) -> None:
    """Send all logs to standard output as redacted lines of JSON."""
    _configure(
        settings,
        level=logging.getLevelNamesMapping()[settings.log_level],
        output=sys.stdout,
        factory=structlog.BytesLoggerFactory(sys.stdout.buffer),
        render=render_line,
    )


def configure_command_logging(settings: Settings) -> None:
    """Send warnings and errors of a command to standard error as redacted lines of JSON.

    Standard output is reserved for the command's results. On a terminal only critical events are logged, because
    the command itself prints results, errors and progress there.
    """
    level = max(logging.WARNING, logging.getLevelNamesMapping()[settings.log_level])
    _configure(
        settings,
        level=logging.CRITICAL if sys.stderr.isatty() else level,
        output=sys.stderr,
        factory=structlog.PrintLoggerFactory(sys.stderr),
        render=_render_text,
    )
    # The command itself reports a lost connection.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)


def _configure(settings: Settings, *, level: int, output: TextIO, factory: Any, render: Any) -> None:
    """Configure structlog and the standard library to log in the same format.

    :param factory: creates loggers that accept the output of ``render``
    """

    def add_service(_logger: Any, _name: str, event_dict: EventDict) -> EventDict:
        event_dict.update(service="campus-marketplace", version=settings.build_revision)
        return event_dict

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        add_service,
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        redact_event,
    ]
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=factory,
        cache_logger_on_first_use=settings.environment != "test",
    )
    handler = _RedactingStreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _render_text],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Huey logs each task with its arguments at INFO, but the tasks log their own results. The PDF libraries log each
    # table of a font. Flask-Limiter logs the address or user of each refused request. The language model's client logs
    # each call, which our own figures count.
    for name in ("huey", "fontTools", "fpdf", "flask-limiter", "httpx2"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def redact_event(_logger: Any, _name: str, event_dict: EventDict) -> EventDict:
    """Redact all fields of a log event except the fields that only this service writes."""
    for key, value in event_dict.items():
        if key not in _UNREDACTED_FIELDS and not key.startswith("_"):
            (event_dict[key],) = redact({key: value}).values()
    return event_dict


def render_line(_logger: Any, _name: str, event_dict: EventDict) -> bytes:
    """Render a log event as a line of JSON."""
    try:
        return _dump(event_dict)
    except TypeError:
        # An unserializable value must not turn a log call into an error.
        return _dump(_to_serializable(event_dict))


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)


def _to_serializable(value: Any) -> Any:
    """Replace values that orjson rejects: integers beyond 64 bits, lone surrogates and unusual keys."""
    if isinstance(value, dict):
        return {str(_to_serializable(key)): _to_serializable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_serializable(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return str(value) if isinstance(value, int) and value.bit_length() > 63 else value


def _render_text(logger: Any, name: str, event_dict: EventDict) -> str:
    return render_line(logger, name, event_dict).decode()


def configure_error_tracking(settings: Settings) -> None:
    """Report unhandled errors to the error tracker if SENTRY_DSN is set."""
    if not settings.sentry_dsn:
        return
    # The modules are large, and unused without a tracker.
    import sentry_sdk  # noqa: PLC0415
    from sentry_sdk.integrations.flask import FlaskIntegration  # noqa: PLC0415
    from sentry_sdk.integrations.huey import HueyIntegration  # noqa: PLC0415
    from sentry_sdk.integrations.redis import RedisIntegration  # noqa: PLC0415
    from sentry_sdk.integrations.sqlalchemy import SqlalchemyIntegration  # noqa: PLC0415

    sentry_sdk.init(
        dsn=settings.sentry_dsn,
        release=settings.build_revision,
        environment=settings.environment,
        include_local_variables=False,
        max_request_body_size="never",
        before_send=scrub_error_event,
        before_breadcrumb=lambda crumb, _hint: scrub(crumb),
        default_integrations=True,
        # The automatic choice would load the storage client into each process.
        auto_enabling_integrations=False,
        integrations=[FlaskIntegration(), HueyIntegration(), RedisIntegration(), SqlalchemyIntegration()],
    )


def report_error(error: Exception) -> None:
    """Report an unhandled error to the error tracker, if one is configured."""
    import sentry_sdk  # noqa: PLC0415 - large, and unused without a tracker

    sentry_sdk.capture_exception(error)


def scrub_error_event(event: "Event", _hint: "Hint") -> "Event":
    """Remove query strings, secrets and bodies from an error event before the event is sent."""
    scrubbed: dict[str, Any] = scrub(dict(event))
    request = scrubbed.get("request")
    if isinstance(request, dict):
        request.update(dict.fromkeys({"query_string", "data", "cookies", "env"} & request.keys(), MARKER))
    return scrubbed  # type: ignore[return-value]


def scrub(value: Any) -> Any:
    """Redact data for the error tracker, and remove query strings from all URLs."""
    return _redact_query_strings(redact(value))


def _redact_query_strings(value: Any) -> Any:
    # The recursion is limited, because redact limits the nesting depth.
    if isinstance(value, dict):
        return {
            key: MARKER if key in _QUERY_KEYS and item else _redact_query_strings(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_redact_query_strings(item) for item in value]
    return _QUERY_STRING.sub(f"?{MARKER}", value) if isinstance(value, str) and "?" in value else value
