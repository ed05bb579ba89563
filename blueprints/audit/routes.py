"""Routes of the audit trail, for staff who may view it."""

from typing import Any

import orjson
from flask import Response

from blueprints.audit.schemas import AuditLogEntry, AuditLogQuery
from blueprints.http import AUDIT_STAFF, MAX_CSV_ROWS, Context, ContractBlueprint, csv_response, wants_csv
from marketplace.audit import table
from marketplace.kernel.paging import TablePage

area = ContractBlueprint("audit-administration", "/api/admin/audit-logs", "The audit trail, for staff")

_CSV_COLUMNS = (
    *("id", "at", "actor_id", "actor", "on_behalf_of_id", "action", "target_type", "target_id"),
    *("ip_address", "user_agent", "request_id", "before", "after", "previous_hash", "hash"),
)


@area.get(
    "",
    auth=AUDIT_STAFF,
    limit="60/minute",
    query=AuditLogQuery,
    reply=AuditLogEntry(many=True),
    csv=True,
)
def list_audit_logs(ctx: Context, query: dict[str, Any]) -> TablePage | Response:
    """List recorded acts, the latest first, as pages of JSON or as a CSV file."""
    as_csv = wants_csv(query.pop("format", None))
    filters = table.AuditFilters(starts=query.pop("from_", None), ends=query.pop("to", None), **query)
    if not as_csv:
        return table.list_audit_entries(ctx.session, filters=filters, table=ctx.table)
    entries = table.export_audit_entries(
        ctx.session, filters=filters, descending=ctx.table.descending, limit=MAX_CSV_ROWS + 1
    )
    return csv_response(
        "audit-logs", columns=_CSV_COLUMNS, rows=map(_flatten, entries), max_rows=MAX_CSV_ROWS
    )


def _flatten(entry: table.AuditEntry) -> dict[str, Any]:
    row = {name: getattr(entry, name) for name in _CSV_COLUMNS}
    for name in ("before", "after"):
        row[name] = None if row[name] is None else orjson.dumps(row[name]).decode()
    return row
