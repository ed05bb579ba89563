"""Route of browsers' reports about the content security policy."""

from typing import Any

import orjson
from flask import request

from blueprints.http import PUBLIC, Context, ContractBlueprint
from blueprints.http.request_parsing import read_body
from blueprints.platform.schemas import CspReceipt
from marketplace.kernel.errors import (
    MalformedBodyError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from marketplace.kernel.signals import CSP_VIOLATION, RECORDER
from marketplace.platform import csp_reports, texts

csp_area = ContractBlueprint("csp_reports", "/api/csp-report", "Reports of browsers")
_MAX_CSP_BYTES = 64 * 1024
_BROWSER_TYPES = ("application/csp-report", "application/reports+json", "application/json")


@csp_area.post(
    "",
    auth=PUBLIC,
    limit="30/15 minute",
    reply=CspReceipt,
    status=200,
    autocommit=True,
    raises=(PayloadTooLargeError, UnsupportedMediaTypeError, MalformedBodyError, ValidationError),
)
def record_csp_report(_ctx: Context) -> dict[str, Any]:
    """Count violations of the content security policy that a browser reports.

    The body has the form of `report-uri` or of the Reporting API, and at most 64 KB.
    """
    if request.mimetype not in _BROWSER_TYPES:
        raise UnsupportedMediaTypeError(texts.CSP_MEDIA_TYPE)
    try:
        violations = csp_reports.read_violations(orjson.loads(read_body(max_bytes=_MAX_CSP_BYTES)))
    except orjson.JSONDecodeError as error:
        raise MalformedBodyError("The body is not valid JSON.") from error
    except csp_reports.UnknownReportError as error:
        raise ValidationError.of("body", texts.CSP_FORM) from error
    for violation in violations:
        RECORDER.count(CSP_VIOLATION, violation)
    return {"recorded": len(violations)}
