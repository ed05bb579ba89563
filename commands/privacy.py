"""Commands for erasures of personal data."""

import json
from pathlib import Path

import click

from commands.console.database import build_services
from commands.console.failures import CommandFailedError
from marketplace.audit import signatures
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.privacy import erasure


@click.group(help="Repeat erasures after a restored backup, and verify receipts.")
def privacy() -> None:
    """Group the commands."""


@privacy.command(
    help="""Erase all people of the kept receipts again, after the database was restored from a backup.

    The receipts are in the private bucket. Workers erase the data within minutes. A second call does nothing.

    \b
    Example:
      marketplace privacy reapply"""
)
def reapply() -> None:
    """Start the erasures that the database does not know."""
    services = build_services()
    settings, database = services.settings, services.database
    files = erasure.StoredFiles(services.storage, settings.s3_public_bucket, settings.s3_private_bucket)
    try:
        receipts = erasure.read_receipts(files)
    except ProviderUnavailableError as error:
        raise CommandFailedError(
            f"{error} Check S3_ENDPOINT_URL and the keys, and run this again."
        ) from error
    with click.progressbar(receipts, label="Receipts") as shown:
        started = sum(
            database.in_transaction(erasure.reapply_erasure, receipt=receipt, now=services.clock())
            for receipt in shown
        )
    database.close()
    click.echo(f"{len(receipts)} receipts, {started} erasures started.")


@privacy.command(
    "signing-key",
    help="""Print the public key of receipts and anchors in PEM format.

    \b
    Example:
      marketplace privacy signing-key > key.pem""",
)
def signing_key() -> None:
    """Print the public key."""
    build_services()
    click.echo(signatures.public_key_pem(), nl=False)


@privacy.command(
    "verify-receipt",
    help="""Verify the signature of a receipt. Neither the database nor the network is necessary.

    \b
    Example:
      marketplace privacy verify-receipt receipt.json --key key.pem""",
)
@click.argument("receipt", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="The public key in PEM format.",
)
def verify_receipt(receipt: Path, key: Path) -> None:
    """Verify a receipt with a public key."""
    try:
        document = json.loads(receipt.read_text("utf-8"))
        is_valid = isinstance(document, dict) and signatures.is_signed(
            document, public_key=key.read_text("utf-8")
        )
    except (ValueError, TypeError) as error:
        raise CommandFailedError(f"The receipt or the key cannot be read: {error}") from error
    if not is_valid:
        raise CommandFailedError(
            "The signature is wrong. The receipt was changed, or belongs to another key."
        )
    click.echo(f"The receipt is valid: {document['kind']} of {document['userId']}, {document['finishedAt']}.")
