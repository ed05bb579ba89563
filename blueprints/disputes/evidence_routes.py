"""Routes of evidence: files of the parties, facts of the service, and the pack for a bank."""

from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from blueprints.disputes.evidence_schemas import (
    EditEvidence,
    EvidenceForm,
    EvidenceLinksView,
    EvidenceView,
    FactsView,
    PackView,
    SetVisibility,
)
from blueprints.http import (
    AUTHENTICATED_ANY_STATUS,
    BUYER_OR_VENDOR_ANY_STATUS,
    DISPUTE_STAFF,
    Context,
    ContractBlueprint,
    Deleted,
    FinalPhase,
    ProcessGroup,
    SharedLimit,
    Upload,
    UploadedFile,
)
from marketplace.disputes import queries
from marketplace.disputes.evidence import facts, files, pack
from marketplace.disputes.models import DisputeEvidence
from marketplace.kernel.errors import ConflictOfInterestError, LimitReachedError

area = ContractBlueprint("dispute_evidence", "/api/disputes/<uuid:dispute_id>", "Evidence in disputes")


@area.post(
    "/evidence",
    auth=BUYER_OR_VENDOR_ANY_STATUS,
    limit="10/minute",
    group=ProcessGroup.WAITING,
    upload=Upload("file", max_bytes=files.MAX_VIDEO_BYTES, accepts=files.CONTENT_TYPES, form=EvidenceForm()),
    reply=EvidenceView,
    status=201,
    phased=True,
    raises=(files.EvidenceSealedError, LimitReachedError),
)
def add_evidence(ctx: Context, dispute_id: UUID, file: UploadedFile) -> FinalPhase:
    """Send a picture (5 MB), a video (50 MB) or a PDF document (10 MB) as evidence.

    Both sides see the file, unless staff mark the file as private. Metadata of pictures is removed.
    """
    stored = files.store_evidence(
        ctx.services.database,
        ctx.services.storage,
        bucket=ctx.services.settings.s3_private_bucket,
        dispute_id=dispute_id,
        caller=ctx.user,
        file=file.content,
        now=ctx.now,
    )

    def attach(session: Session) -> DisputeEvidence:
        return files.attach_evidence(
            session,
            dispute_id=dispute_id,
            caller=ctx.user,
            stored=stored,
            kind=file.form["kind"],
            note=file.form.get("note"),
            now=ctx.now,
        )

    return FinalPhase(attach)


@area.get(
    "/evidence",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    reply=EvidenceView(many=True),
)
def list_evidence(ctx: Context, dispute_id: UUID) -> Any:
    """List the evidence that you may see, from the first file."""
    role = queries.ensure_reader(ctx.session, caller=ctx.user, dispute_id=dispute_id).role
    return files.list_evidence(ctx.session, dispute_id=dispute_id, role=role)


@area.get(
    "/evidence/<uuid:evidence_id>",
    auth=AUTHENTICATED_ANY_STATUS,
    limit=SharedLimit.CALLER_TIER,
    reply=EvidenceLinksView,
)
def get_evidence_links(ctx: Context, dispute_id: UUID, evidence_id: UUID) -> files.EvidenceLinks:
    """Get links of a minute to a file and its poster frame."""
    return files.evidence_links(
        ctx.session,
        ctx.services.storage,
        bucket=ctx.services.settings.s3_private_bucket,
        dispute_id=dispute_id,
        evidence_id=evidence_id,
        caller=ctx.user,
        now=ctx.now,
    )


@area.put(
    "/evidence/<uuid:evidence_id>",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="30/minute",
    body=EditEvidence,
    reply=EvidenceView,
    raises=(files.EvidenceSealedError,),
)
def edit_evidence(ctx: Context, dispute_id: UUID, evidence_id: UUID, body: dict[str, Any]) -> DisputeEvidence:
    """Change kind and note of your evidence before the evidence is sealed."""
    return files.edit_evidence(
        ctx.session,
        dispute_id=dispute_id,
        evidence_id=evidence_id,
        caller=ctx.user,
        kind=body["kind"],
        note=body.get("note"),
        now=ctx.now,
    )


@area.delete(
    "/evidence/<uuid:evidence_id>",
    auth=AUTHENTICATED_ANY_STATUS,
    limit="30/minute",
    reply=Deleted,
    raises=(files.EvidenceSealedError,),
)
def remove_evidence(ctx: Context, dispute_id: UUID, evidence_id: UUID) -> dict[str, Any]:
    """Remove your evidence before the evidence is sealed."""
    files.remove_evidence(
        ctx.session, dispute_id=dispute_id, evidence_id=evidence_id, caller=ctx.user, now=ctx.now
    )
    return {"deleted": True, "id": evidence_id}


@area.put(
    "/evidence/<uuid:evidence_id>/visibility",
    auth=DISPUTE_STAFF,
    limit="30/minute",
    body=SetVisibility,
    reply=EvidenceView,
    raises=(ConflictOfInterestError,),
)
def set_evidence_visibility(
    ctx: Context, dispute_id: UUID, evidence_id: UUID, body: dict[str, Any]
) -> DisputeEvidence:
    """Hide a file from the other side, or show the file again."""
    return files.set_visibility(
        ctx.session,
        dispute_id=dispute_id,
        evidence_id=evidence_id,
        is_private=body["is_private"],
        act=ctx.act,
    )


@area.get("/facts", auth=AUTHENTICATED_ANY_STATUS, limit=SharedLimit.CALLER_TIER, reply=FactsView)
def get_dispute_facts(ctx: Context, dispute_id: UUID) -> dict[str, Any]:
    """Get the facts that the service has about the order: trail, PIN deliveries, messages and bought listings."""
    dispute = queries.ensure_reader(ctx.session, caller=ctx.user, dispute_id=dispute_id).dispute
    found = facts.collect_facts(ctx.session, dispute=dispute)
    listings = [
        vars(listing) | {"image_urls": [f"{ctx.media_base_url}/{key}" for key in listing.image_keys]}
        for listing in found.listings
    ]
    return vars(found) | {"wrong_pins": found.wrong_pins, "listings": listings}


@area.post(
    "/evidence-pack",
    auth=DISPUTE_STAFF,
    limit="10/minute",
    reply=PackView,
    status=201,
    phased=True,
    raises=(ConflictOfInterestError,),
)
def make_evidence_pack(ctx: Context, dispute_id: UUID) -> pack.StoredPack:
    """Make a ZIP of all evidence with a summary, to send to the bank of a chargeback."""
    from blueprints.disputes import pack_pdf  # noqa: PLC0415 - the PDF library is large, and rarely needed

    with ctx.transaction() as session:
        content = pack.collect_pack(session, dispute_id=dispute_id, act=ctx.act)
        session.expunge_all()
    settings = ctx.services.settings
    return pack.store_pack(
        ctx.services.database,
        ctx.services.storage,
        private_bucket=settings.s3_private_bucket,
        public_bucket=settings.s3_public_bucket,
        content=content,
        summary=pack_pdf.render_summary(content, generated_at=ctx.now),
        now=ctx.now,
    )
