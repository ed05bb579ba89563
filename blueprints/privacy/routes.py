"""Routes of personal data: exports."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from blueprints.http import AUTHENTICATED_ANY_STATUS, Context, ContractBlueprint, SharedLimit
from blueprints.privacy.schemas import ArchiveLink, ExportQuery, ExportView, RequestedExportView
from marketplace.kernel.errors import NotFoundError
from marketplace.kernel.paging import Page
from marketplace.media.documents import LINK_SECONDS
from marketplace.privacy import exports

area = ContractBlueprint("privacy", "/api/users/me/privacy-exports", "Your personal data")


@area.post(
    "",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="5/hour",
    reply=RequestedExportView,
    status=201,
    raises=(exports.ExportInProgressError,),
)
def request_privacy_export(ctx: Context) -> exports.RequestedExport:
    """Request an archive of your data. The answer has the passphrase, which is shown only once."""
    return exports.request_export(ctx.session, user_id=ctx.user.id, now=ctx.now)


@area.get(
    "",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    query=ExportQuery,
    reply=ExportView(many=True),
)
def list_privacy_exports(ctx: Context, query: dict[str, Any]) -> Page:
    """List your exports, the latest first."""
    del query
    return exports.list_exports(ctx.session, user_id=ctx.user.id, page=ctx.page)


@area.get(
    "/<uuid:export_id>/artifact",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="10/hour",
    reply=ArchiveLink,
    raises=(NotFoundError, exports.ExportNotAvailableError),
)
def get_privacy_archive(ctx: Context, export_id: UUID) -> dict[str, Any]:
    """Get a link to the archive: a ZIP with AES-256, which 7-Zip and most archive programs open."""
    settings = ctx.services.settings
    url = exports.archive_link(
        ctx.session,
        ctx.services.storage,
        bucket=settings.s3_private_bucket,
        export_id=export_id,
        user_id=ctx.user.id,
        now=ctx.now,
    )
    return {"url": url, "expires_at": ctx.now + timedelta(seconds=LINK_SECONDS)}
