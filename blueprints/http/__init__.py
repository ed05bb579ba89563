"""Public names of the HTTP edge, for route modules to import."""

from blueprints.http.context import Context, FinalPhase, client_ip
from blueprints.http.contract import (
    AUTHENTICATED,
    AUTHENTICATED_ANY_STATUS,
    FINANCE,
    FINANCE_AAL2,
    OPTIONAL,
    ORDER_STAFF,
    PLATFORM_STAFF,
    PLATFORM_STAFF_AAL2,
    PRODUCT_STAFF,
    PUBLIC,
    STAFF,
    STAFF_AAL2,
    UNCHECKED,
    VENDOR,
    VENDOR_OR_FINANCE_AAL2,
    VENDOR_OR_STAFF,
    Idempotency,
    ProcessGroup,
    RouteLimit,
    SharedLimit,
    Upload,
)
from blueprints.http.csv_export import MAX_CSV_ROWS, csv_response, negotiate_format, wants_csv
from blueprints.http.endpoint import ContractBlueprint
from blueprints.http.envelope import JSON_TYPE
from blueprints.http.fields import CursorQuery, Deleted
from blueprints.http.request_parsing import expected_revision, omit_fields, read_signed_body
from blueprints.http.uploads import UploadedFile

__all__ = [
    "AUTHENTICATED",
    "AUTHENTICATED_ANY_STATUS",
    "FINANCE",
    "FINANCE_AAL2",
    "JSON_TYPE",
    "MAX_CSV_ROWS",
    "OPTIONAL",
    "ORDER_STAFF",
    "PLATFORM_STAFF",
    "PLATFORM_STAFF_AAL2",
    "PRODUCT_STAFF",
    "PUBLIC",
    "STAFF",
    "STAFF_AAL2",
    "UNCHECKED",
    "VENDOR",
    "VENDOR_OR_FINANCE_AAL2",
    "VENDOR_OR_STAFF",
    "Context",
    "ContractBlueprint",
    "CursorQuery",
    "Deleted",
    "FinalPhase",
    "Idempotency",
    "ProcessGroup",
    "RouteLimit",
    "SharedLimit",
    "Upload",
    "UploadedFile",
    "client_ip",
    "csv_response",
    "expected_revision",
    "negotiate_format",
    "omit_fields",
    "read_signed_body",
    "wants_csv",
]
