"""Logs: one line of JSON each, with the request's context, redacted. Errors go to the tracker likewise."""

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import orjson
import sentry_sdk
import structlog
from sentry_sdk.types import Event, Hint

from marketplace.infra.settings import Settings
from marketplace.kernel.redaction import MARKER, redact

EventDict = MutableMapping[str, Any]

# Fields that are made here, by us alone, and cannot hold what somebody typed.
_UNREDACTED_FIELDS = frozenset(
    {"timestamp", "level", "service", "version", "method", "status", "durationMs", "requestId"}
)

# As the tracker's integrations name them, in requests, breadcrumbs and spans.
_QUERY_KEYS = frozenset({"query_string", "http.query", "http.fragment", "url.query", "url.fragment"})
_QUERY_STRING = re.compile(r"""(?<=[\w/])\?[^\s"'<>=]+=[^\s"'<>]*""")


class _RedactingStreamHandler(logging.StreamHandler[TextIO]):
    """Writes lines; what can't be formatted is told without its arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Tell of a record that failed; logging's own way prints it with all its arguments."""
        failure = sys.exc_info()[1]
        # After an OSError the output is gone: there is nowhere to tell it.
        if not isinstance(failure, OSError):
            structlog.get_logger(__name__).error(
                "log record could not be formatted",
                logger=record.name,
                source=f"{record.filename}:{record.lineno}",
                failure=type(failure).__name__,
            )


def configure_logging(settings: Settings) -> None:
    """Send all logs to standard output, as redacted lines of JSON."""
    _configure(
        settings,
        level=logging.getLevelNamesMapping()[settings.log_level],
        output=sys.stdout,
        factory=structlog.BytesLoggerFactory(sys.stdout.buffer),
        render=render_line,
    )


def configure_command_logging(settings: Settings) -> None:
    """Send warnings and worse to standard error, as redacted lines of JSON.

    Standard output is the command's own. A terminal is not written to either: a command tells people itself what it
    did and what failed, and draws its progress there.
    """
    level = max(logging.WARNING, logging.getLevelNamesMapping()[settings.log_level])
    _configure(
        settings,
        level=logging.CRITICAL if sys.stderr.isatty() else level,
        output=sys.stderr,
        factory=structlog.PrintLoggerFactory(sys.stderr),
        render=_render_text,
    )
    # What it says of a connection that is lost, the command says in words.
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)


def _configure(settings: Settings, *, level: int, output: TextIO, factory: Any, render: Any) -> None:
    """Have structlog and the standard library log alike.

    :param factory: makes loggers that take what ``render`` gives
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
    # Huey says each task at INFO, with its arguments; our tasks log what they did themselves. What draws PDF files
    # tells of each table of a font.
    for name in ("huey", "fontTools", "fpdf"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))


def redact_event(_logger: Any, _name: str, event_dict: EventDict) -> EventDict:
    """Redact all fields of a log event but those that only the service itself writes."""
    for key, value in event_dict.items():
        if key not in _UNREDACTED_FIELDS and not key.startswith("_"):
            (event_dict[key],) = redact({key: value}).values()
    return event_dict


def render_line(_logger: Any, _name: str, event_dict: EventDict) -> bytes:
    """Write a log event as one line of JSON."""
    try:
        return _dump(event_dict)
    except TypeError:
        # A line that can't be written would turn what it tells of into an error of its own.
        return _dump(_to_serializable(event_dict))


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)


def _to_serializable(value: Any) -> Any:
    """Replace what JSON as we write it has no room for: integers beyond 64 bits, half characters, odd keys."""
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
    """Report unhandled errors to the error tracker, where one is configured."""
    if not settings.sentry_dsn:
        return
    sentry_sdk.init(
        dsn=settings.sentry_dsn,
        release=settings.build_revision,
        environment=settings.environment,
        include_local_variables=False,
        max_request_body_size="never",
        before_send=scrub_error_event,
        before_breadcrumb=lambda crumb, _hint: scrub(crumb),
        default_integrations=True,
    )


def scrub_error_event(event: Event, _hint: Hint) -> Event:
    """Scrub an error event before it leaves: no query strings, secrets or bodies."""
    scrubbed: dict[str, Any] = scrub(dict(event))
    request = scrubbed.get("request")
    if isinstance(request, dict):
        request.update(dict.fromkeys({"query_string", "data", "cookies", "env"} & request.keys(), MARKER))
    return scrubbed  # type: ignore[return-value]


def scrub(value: Any) -> Any:
    """Redact what is told to the error tracker, and take the query out of every address."""
    return _redact_query_strings(redact(value))


def _redact_query_strings(value: Any) -> Any:
    # What redact gives back is as deep as it allows, and no deeper.
    if isinstance(value, dict):
        return {
            key: MARKER if key in _QUERY_KEYS and item else _redact_query_strings(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_redact_query_strings(item) for item in value]
    return _QUERY_STRING.sub(f"?{MARKER}", value) if isinstance(value, str) and "?" in value else value
