"""Problem details (RFC 9457, which obsoletes RFC 7807) for every error, including errors of the framework."""

import re

import sentry_sdk
import structlog
from flask import Flask, Response, render_template, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from blueprints.http import auth, limits, texts
from blueprints.http.context import Context, correlation_id, current_context
from blueprints.http.envelope import dump_json
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import (
    CATALOG,
    MalformedBodyError,
    MarketplaceError,
    NotFoundError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
)

_log = structlog.get_logger(__name__)
PROBLEM_TYPE = "application/problem+json"


class MethodNotAllowedError(MarketplaceError):
    """The resource does not support this method."""

    code = "METHOD_NOT_ALLOWED"


class InternalError(MarketplaceError):
    """An unexpected error occurred in this service."""

    code = "INTERNAL_ERROR"


_ERROR_BY_STATUS: dict[int, type[MarketplaceError]] = {
    404: NotFoundError,
    405: MethodNotAllowedError,
    413: PayloadTooLargeError,
    415: UnsupportedMediaTypeError,
}


def error_slug(code: str) -> str:
    """Return the slug of an error code, which is the last part of the problem's ``type``."""
    return code.lower().replace("_", "-")


def problem_body(error: MarketplaceError, context: Context) -> bytes:
    """Serialize an error as problem details."""
    body = {
        "type": f"{context.services.settings.public_base_url}/errors/{error_slug(error.code)}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": context.path,
        "code": error.code,
        "requestId": context.request_id,
        "timestamp": iso(context.now),
    }
    if error.reason:
        body["reason"] = error.reason
    if error.invalid_params:
        body["invalid_params"] = [{"name": item.name, "reason": item.reason} for item in error.invalid_params]
    if error.status >= 500:
        body["correlationId"] = correlation_id()
    return dump_json(body | error.extensions)


def problem_response(error: MarketplaceError) -> Response:
    """Build the response for an error."""
    response = Response(
        problem_body(error, current_context()), status=error.status, content_type=PROBLEM_TYPE
    )
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def register(app: Flask) -> None:
    """Answer errors as problem details, and explain error codes under /errors."""

    @app.errorhandler(MarketplaceError)
    def handle_marketplace_error(error: MarketplaceError) -> Response:
        _count_if_uncounted(current_context())
        return problem_response(error)

    @app.errorhandler(HTTPException)
    def handle_http_exception(error: HTTPException) -> Response:
        if isinstance(error, RequestRedirect):
            return Response(status=error.code, headers={"Location": error.new_url})
        context = current_context()
        if context.contract is None:
            # A path or method without a route counts on the caller's tier.
            try:
                auth.admit_to_path_without_contract(context)
            except MarketplaceError as refused:
                return problem_response(refused)
        response = problem_response(_translate_http_exception(error))
        if error.code == 405:
            response.headers["Allow"] = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return response

    @app.errorhandler(Exception)
    def handle_unexpected_error(error: Exception) -> Response:
        sentry_sdk.capture_exception(error)
        _count_if_uncounted(current_context())
        _log.error("unhandled error", correlationId=correlation_id(), exc_info=error)
        return problem_response(InternalError(texts.INTERNAL_ERROR))

    @app.get("/errors/<slug>")
    def error_page(slug: str) -> Response:
        """Return the page that explains an error code."""
        auth.admit_to_path_without_contract(current_context())
        code = slug.replace("-", "_").upper()
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", slug) or code not in CATALOG:
            raise NotFoundError("This error code does not exist.")
        page = render_template("error.html", code=code, entry=CATALOG[code])
        return Response(page, content_type="text/html; charset=utf-8")


def _count_if_uncounted(context: Context) -> None:
    """Count a request that failed before the limit was checked. Errors carry rate-limit headers too."""
    if not context.rate_limit_headers and context.contract is not None:
        limits.count_refused_request(context, contract=context.contract)


def _translate_http_exception(error: HTTPException) -> MarketplaceError:
    status = error.code or 500
    if status == 405:
        return MethodNotAllowedError(texts.METHOD_NOT_ALLOWED.format(method=request.method))
    if status == 400:
        return MalformedBodyError(texts.REQUEST_UNREADABLE.format(error=error.name))
    if status in _ERROR_BY_STATUS:
        return _ERROR_BY_STATUS[status]()
    if 400 <= status < 500:
        return ValidationError(texts.REQUEST_UNREADABLE.format(error=error.name))
    return InternalError(texts.INTERNAL_ERROR)
