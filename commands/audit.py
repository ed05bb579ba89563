"""Commands for the audit trail."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import click

from commands.console.database import build_services, read_session
from commands.console.failures import CommandFailedError
from marketplace.audit import anchors, archives, chain
from marketplace.audit.models import AuditArchive
from marketplace.kernel.errors import ProviderUnavailableError

_Row = TypeVar("_Row")
_PROGRESS_ROWS = 200_000


@click.group(help="Verify the audit trail.")
def audit() -> None:
    """Group the commands."""


@audit.command(
    help="""Verify the chain of hashes of the whole audit trail, and compare it with the daily anchors in the storage.

    Exits with status 1 if the chain is broken, and names the first row that was changed or follows a deleted row. The
    verification starts after the rows that were dropped at the end of their retention.

    With --archive, downloaded archives are verified instead, without the database and the network. FOLDER has the files
    of the folder audit-archive of the private bucket.

    \b
    Examples:
      marketplace audit verify
      marketplace audit verify --archive audit-archive --key key.pem"""
)
@click.option(
    "--archive",
    "folder",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Verify the archives in this folder.",
)
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The public key of `marketplace privacy signing-key`, for --archive.",
)
@click.option("--without-anchors", is_flag=True, help="Do not read the anchors from the storage.")
def verify(folder: Path | None, key: Path | None, *, without_anchors: bool) -> None:
    """Verify the audit trail."""
    if folder is not None:
        _verify_archives(folder, key)
        return
    started = time.monotonic()
    try:
        with read_session() as session:
            rows, dropped = _Counter(), archives.last_dropped(session)
            start = chain.START if dropped is None else chain.Link(dropped.last_id, dropped.last_hash)
            chain.verify_rows(rows.count(chain.read_rows(session, after_id=start.last_id)), start=start)
    except chain.BrokenChainError as error:
        raise CommandFailedError(
            f"The audit trail is broken at row {error.row_id} of audit_logs."
            " That row was changed, or a row before it was deleted."
        ) from error
    seconds = time.monotonic() - started
    checked = 0 if without_anchors else _check_anchors(dropped)
    click.echo(
        f"The audit trail is intact: {rows.total} rows in {seconds:.1f} s, and {checked} anchors agree."
    )


class _Counter:
    """A count of rows with progress on standard error."""

    def __init__(self) -> None:
        self.total = 0

    def count(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        """Yield the rows, and print each 200,000."""
        for row in rows:
            self.total += 1
            if self.total % _PROGRESS_ROWS == 0:
                click.echo(f"{self.total} rows", err=True)
            yield row


def _check_anchors(dropped: AuditArchive | None) -> int:
    """Compare the trail with the anchors after the dropped rows, and the first row with the manifest before."""
    services = build_services()
    count = 0
    bucket = services.settings.s3_private_bucket
    try:
        if dropped is not None:
            archives.check_manifest(services.storage, bucket=bucket, archive=dropped)
        with services.database.reading() as session:
            for anchor in anchors.read_anchors(services.storage, bucket=bucket):
                if dropped is None or anchor["lastId"] > dropped.last_id:
                    anchors.check_anchor(session, anchor)
                    count += 1
    except (anchors.AnchorError, archives.ArchiveError) as error:
        raise CommandFailedError(f"{error} The trail was cut off or written again.") from error
    except ProviderUnavailableError as error:
        raise CommandFailedError(
            f"The chain is intact, but the anchors cannot be read: {error} Use --without-anchors to skip them."
        ) from error
    finally:
        services.database.close()
    return count


def _verify_archives(folder: Path, key: Path | None) -> None:
    if key is None:
        raise click.UsageError("--archive needs --key.")
    try:
        months, rows = archives.verify_archives(folder, public_key=key.read_text("utf-8"))
    except archives.ArchiveError as error:
        raise CommandFailedError(str(error)) from error
    except (ValueError, TypeError) as error:
        raise CommandFailedError(f"The key cannot be read: {error}") from error
    if not months:
        raise CommandFailedError(f"{folder} has no archives.")
    click.echo(f"The archives are intact: {months} months, {rows} rows.")
