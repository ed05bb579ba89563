"""Problem details (RFC 9457, which obsoletes RFC 7807) for every error, including errors of the framework."""

from collections.abc import Callable
from datetime import datetime
from urllib.parse import quote
from uuid import UUID

import structlog
from flask import Flask, Response, request
from flask.globals import request_ctx
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from blueprints.http import auth, limits, texts
from blueprints.http.context import Context, correlation_id, current_context
from blueprints.http.envelope import dump_json
from marketplace.infra.logs import report_error
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import (
    MalformedBodyError,
    MarketplaceError,
    NotFoundError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
)

_log = structlog.get_logger(__name__)
PROBLEM_TYPE = "application/problem+json"
# Characters that a path may contain unencoded (RFC 3986, section 3.3).
_PATH_CHARACTERS = "/:@!$&'()*+,;="
_ANY_ID = UUID(int=0)


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
    """Serialize an error of the current request as problem details."""
    return render_problem(
        error,
        base_url=context.services.settings.public_base_url,
        path=context.path,
        request_id=str(context.request_id),
        now=context.now,
        correlation_id=correlation_id() if error.status >= 500 else None,
    )


def render_problem(
    error: MarketplaceError,
    *,
    base_url: str,
    path: str,
    request_id: str,
    now: datetime,
    correlation_id: str | None = None,
    indented: bool = False,
) -> bytes:
    """Serialize an error as problem details.

    :param path: the decoded path of the request. The member ``instance`` is a URI reference, so it is percent-encoded
    """
    body = {
        "type": f"{base_url}/errors/{error_slug(error.code)}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
        "instance": quote(path, safe=_PATH_CHARACTERS),
        "code": error.code,
        "requestId": request_id,
        "timestamp": iso(now),
    }
    if error.reason:
        body["reason"] = error.reason
    if error.invalid_params:
        body["invalid_params"] = [{"name": item.name, "reason": item.reason} for item in error.invalid_params]
    if correlation_id:
        body["correlationId"] = correlation_id
    return dump_json(body | error.extensions, indented=indented)


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


def is_browser() -> bool:
    """Return whether the client prefers a page to JSON, as browsers do."""
    accepted = request.accept_mimetypes
    return accepted["text/html"] > max(accepted["application/json"], accepted[PROBLEM_TYPE])


def register(app: Flask, *, render_missing_page: Callable[[], Response]) -> None:
    """Answer errors as problem details.

    :param render_missing_page: renders the page of an unknown path for people with a browser
    """

    @app.errorhandler(MarketplaceError)
    def handle_marketplace_error(error: MarketplaceError) -> Response:
        _count_if_uncounted(current_context())
        return problem_response(error)

    @app.errorhandler(HTTPException)
    def handle_http_exception(error: HTTPException) -> Response:
        context = current_context()
        if context.contract is None:
            # A path or method without a route counts on the caller's tier.
            try:
                auth.admit_to_path_without_contract(context)
            except MarketplaceError as refused:
                return problem_response(refused)
            if error.code == 404 and is_browser():
                return render_missing_page()
        if isinstance(error, MethodNotAllowed) and _has_malformed_id(error):
            return problem_response(NotFoundError())
        response = problem_response(_translate_http_exception(error))
        if error.code == 405:
            response.headers["Allow"] = ", ".join(sorted(getattr(error, "valid_methods", None) or ()))
        return response

    @app.errorhandler(Exception)
    def handle_unexpected_error(error: Exception) -> Response:
        report_error(error)
        _count_if_uncounted(current_context())
        _log.error("unhandled error", correlationId=correlation_id(), exc_info=error)
        return problem_response(InternalError(texts.INTERNAL_ERROR))


def _has_malformed_id(error: MethodNotAllowed) -> bool:
    """Return whether the method takes an id where the path has another word, such as a slug for another method.

    The word is an id that no resource has, as on paths without a route for slugs.
    """
    adapter = request_ctx.url_adapter
    if adapter is None or not error.valid_methods:
        return False
    rule, _ = adapter.match(method=next(iter(error.valid_methods)), return_rule=True)
    parent, _, _ = request.path.rpartition("/")
    return rule.rule.endswith(">") and adapter.test(f"{parent}/{_ANY_ID}", method=request.method)


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
