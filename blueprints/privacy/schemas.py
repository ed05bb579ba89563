"""Schemas of personal data."""

from marshmallow import fields

from blueprints.http.field_docs import doc
from blueprints.http.fields import Choice, CursorQuery, Schema, StrictInteger, Timestamp, Uuid
from marketplace.kernel import demo_ids
from marketplace.privacy import exports


def _id() -> Uuid:
    return Uuid(required=True, metadata=doc("Export.", demo_ids.PRIVACY_EXPORT))


def _status() -> Choice:
    return Choice(
        *exports.STATUSES,
        required=True,
        metadata=doc("`requested` and `processing` become `ready` or `failed`.", "requested"),
    )


class RequestedExportView(Schema):
    """A new export. The passphrase is shown only here."""

    id = _id()
    status = _status()
    passphrase = fields.String(
        required=True,
        metadata=doc("Passphrase of the archive. Keep it: nobody can show it again.", "ABCD-EFGH-IJKL-MNOP"),
    )


class ExportQuery(CursorQuery):
    """The page of exports."""


class ExportView(Schema):
    """An export of your data."""

    id = _id()
    status = _status()
    byte_count = StrictInteger(
        minimum=1, required=True, allow_none=True, metadata=doc("Size of the archive; null before.", None)
    )
    requested_at = Timestamp(required=True, metadata=doc("Time of the request.", "2035-03-05T10:00:00Z"))
    ready_at = Timestamp(
        required=True,
        allow_none=True,
        metadata=doc("Time at which the archive was ready; null before.", None),
    )
    expires_at = Timestamp(
        required=True, allow_none=True, metadata=doc("End of the download; null before `ready`.", None)
    )


class ArchiveLink(Schema):
    """A link to the archive, valid for 60 seconds."""

    url = fields.Url(
        required=True,
        metadata=doc("Address of the archive.", "https://files.example.edu/exports/archive.zip"),
    )
    expires_at = Timestamp(required=True, metadata=doc("End of the link.", "2035-03-05T10:01:00Z"))
