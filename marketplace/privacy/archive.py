"""The archive of a person's data: an encrypted ZIP with a JSON document for each area, an index page, and files."""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import IO, Any
from uuid import UUID

import orjson
import pyzipper
from sqlalchemy import Table, select, text
from sqlalchemy.orm import Session

from marketplace.audit.person_keys import unseal_values
from marketplace.infra.db import allow_long_statements
from marketplace.media.models import Image, PrivateDocument
from marketplace.privacy import texts
from marketplace.privacy.erasure_steps import SEALED_COLUMNS
from marketplace.privacy.register import PERSONAL_TABLES
from marketplace.providers.storage import ObjectStorage

_BATCH_ROWS = 500
_STATEMENT_SECONDS = 300
_MAX_FILE_BYTES = 64 * 1024 * 1024
# Secrets, indexes of ciphertexts, and ids of providers say nothing about the person.
_LEFT_OUT = {
    "audit_logs": {"previous_hash", "hash"},
    "disputes": {"finding"},
    "notification_delivery_logs": {"provider_message_id"},
    "orders": {"pin_counter", "pin_failures", "pin_locked_until"},
    "payout_accounts": {"account_number_index"},
    "former_contacts": {"contact_index"},
    "payment_intents": {"access_code"},
    "phone_codes": {"phone_index"},
    "profiles": {"phone_index"},
    "privacy_exports": {"nonce", "document_id"},
    "support_contacts": {"sender_index"},
    "support_contact_messages": {"provider_message_id", "replies_to"},
    "support_ticket_messages": {"email_message_id", "provider_message_id"},
    "user_devices": {"token", "token_index"},
}
# Rows about a person that only the staff or the other side may see. Nobody learns who blocked them.
_ROWS_LEFT_OUT = {
    "chat_blocks": "t.blocker_id = :user_id",
    "dispute_evidence": "NOT t.is_private",
    "dispute_ruling_proposals": "false",
    "search_documents": "false",
    "support_ticket_messages": "NOT t.is_internal",
}
# Columns that belong to the other party of an order, by the column with the owner.
_OF_THE_OWNER = {"orders": ("buyer_id", {"shipping_address", "delivery_phone", "note"})}


@dataclass(frozen=True)
class ArchiveContent:
    """The number of rows of an archive, by table, and the number of files."""

    rows: Mapping[str, int]
    files: int


def write_archive(
    session: Session,
    storage: ObjectStorage,
    *,
    tables: Mapping[str, Table],
    user_id: UUID,
    passphrase: str,
    public_bucket: str,
    private_bucket: str,
    into: IO[bytes],
) -> ArchiveContent:
    """Write the archive in parts, in the order of the register. A document is never in memory as a whole.

    :param session: in a transaction, whose statements may take longer
    :param tables: all tables of the models by name
    :param into: an open file on disk
    :raises ProviderUnavailableError: the storage failed
    """
    allow_long_statements(session, seconds=_STATEMENT_SECONDS)
    archive = pyzipper.AESZipFile(into, "w", compression=pyzipper.ZIP_DEFLATED)
    try:
        archive.setpassword(passphrase.encode())
        archive.setencryption(pyzipper.WZ_AES, nbits=256)
        content = _write_entries(
            session, storage, tables, archive, user_id, buckets=(public_bucket, private_bucket)
        )
    except BaseException:
        # Closing would write again, and hide the error of a full disk.
        archive.fp = None
        raise
    archive.close()
    return content


def _write_entries(
    session: Session,
    storage: ObjectStorage,
    tables: Mapping[str, Table],
    archive: pyzipper.AESZipFile,
    user_id: UUID,
    *,
    buckets: tuple[str, str],
) -> ArchiveContent:
    rows: dict[str, int] = {}
    for area in dict.fromkeys(rule.area for rule in PERSONAL_TABLES.values()):
        with archive.open(f"{area}.json", "w", force_zip64=True) as document:
            rows |= _write_area(session, tables, document, area, user_id)
    files = 0
    for bucket, key in _list_files(session, user_id, *buckets):
        name = f"files/{key.replace('/', '-')}"
        with archive.open(name, "w", force_zip64=True) as entry:
            storage.download(bucket=bucket, key=key, into=entry, max_bytes=_MAX_FILE_BYTES)
        files += 1
    archive.writestr("index.html", _index_page(rows, files))
    return ArchiveContent(rows, files)


def _write_area(
    session: Session, tables: Mapping[str, Table], document: IO[bytes], area: str, user_id: UUID
) -> dict[str, int]:
    """Write the tables of an area, and return the number of rows by table."""
    counts: dict[str, int] = {}
    document.write(b"{")
    names = [name for name, rule in PERSONAL_TABLES.items() if rule.area == area]
    for position, name in enumerate(names):
        document.write(b",\n" if position else b"\n")
        document.write(orjson.dumps(name) + b": [")
        counts[name] = 0
        for row in _read_rows(session, tables[name], user_id):
            document.write((b",\n  " if counts[name] else b"\n  ") + orjson.dumps(row, default=_as_json))
            counts[name] += 1
        document.write(b"]")
    document.write(b"\n}\n")
    return counts


def _read_rows(session: Session, table: Table, user_id: UUID) -> Iterator[dict[str, Any]]:
    name = table.name
    columns = [column for column in table.alias("t").columns if column.name not in _LEFT_OUT.get(name, ())]
    conditions = [f"({PERSONAL_TABLES[name].subject})", *filter(None, [_ROWS_LEFT_OUT.get(name)])]
    query = select(*columns).where(text(" AND ".join(conditions)))
    result = session.execute(
        query, {"user_id": user_id}, execution_options={"stream_results": True, "yield_per": _BATCH_ROWS}
    )
    names = [str(column.name) for column in columns]
    owner, owned = _OF_THE_OWNER.get(name, ("", set()))
    for row in result:
        values = dict(zip(names, row, strict=True))
        if owner and values[owner] != user_id:
            values |= dict.fromkeys(owned)
        if name in SEALED_COLUMNS:
            values = unseal_values(session, values)
        yield values


def _list_files(
    session: Session, user_id: UUID, public_bucket: str, private_bucket: str
) -> list[tuple[str, str]]:
    """List the person's pictures and documents, as bucket and key."""
    images = session.scalars(select(Image.key).where(Image.owner_id == user_id, Image.status == "ready"))
    documents = session.scalars(
        select(PrivateDocument.key).where(
            PrivateDocument.owner_id == user_id, PrivateDocument.status == "ready"
        )
    )
    return [(public_bucket, key) for key in images] + [(private_bucket, key) for key in documents]


def _index_page(rows: Mapping[str, int], files: int) -> str:
    entries = "".join(
        f"<tr><td><a href='{rule.area}.json'>{rule.area}.json</a></td><td>{name}</td>"
        f"<td>{html.escape(rule.purpose)}</td><td>{rows[name]}</td></tr>"
        for name, rule in PERSONAL_TABLES.items()
    )
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{texts.INDEX_TITLE}</title>"
        f"<h1>{texts.INDEX_TITLE}</h1><p>{texts.INDEX_INTRODUCTION}</p>"
        f"<table><tr><th>Document</th><th>Table</th><th>Purpose</th><th>Rows</th></tr>{entries}</table>"
        f"<p>Files: {files}</p></html>"
    )


def _as_json(value: Any) -> Any:
    if isinstance(value, Decimal | UUID | datetime):
        return str(value)
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return str(value)
