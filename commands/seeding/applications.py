"""Vendor applications in each state, with student IDs in the private bucket."""

from datetime import datetime, timedelta
from uuid import UUID

from fpdf import FPDF
from sqlalchemy.orm import Session

from commands.seeding.people import STORES, campus_id, student_id
from marketplace.applications.models import VendorApplication
from marketplace.identity.models import Profile
from marketplace.kernel import demo_ids
from marketplace.kernel.demo_ids import SeededKind, seeded_id
from marketplace.media.documents import PDF, UNUSED_GRACE_PERIOD
from marketplace.media.models import PrivateDocument
from marketplace.services import Services
from sandbox.personas import MAIN_CAMPUS, persona_named

# The status and the slug of each application. The last applicant is the owner of a store.
_APPLICATIONS = (
    ("submitted", "hall-snacks"),
    ("under_review", "past-questions-hub"),
    ("needs_info", "wig-corner"),
    ("rejected", "cheap-phones"),
    ("withdrawn", "lab-coats"),
    ("approved", STORES[1].slug),
)
_QUESTION = "The ID has expired. Please upload the new card."
_REASON = "The ID belongs to another person."
_DESCRIPTION = "Orders before noon go out the same day, from my room in Moremi Hall."


def render_document(text: str) -> bytes:
    """Render a PDF document of one line. Equal texts give equal files."""
    document = FPDF()
    document.add_page()
    document.set_font("helvetica", size=14)
    document.cell(text=text)
    # The content must not depend on the time.
    document.set_creation_date(datetime.fromisoformat("2026-01-05T10:00:00+00:00"))
    return bytes(document.output())


def store_student_ids(services: Services) -> None:
    """Store the documents of the applications. Stored documents are replaced by the same content.

    :raises ProviderUnavailableError: the object storage does not accept documents
    """
    content = render_document("Student ID of the demo")
    keys = [demo_ids.STUDENT_ID_PATH, *(_document_key(number) for number in range(1, len(_APPLICATIONS) + 1))]
    for key in keys:
        services.storage.put(
            bucket=services.settings.s3_private_bucket,
            key=key,
            content=content,
            content_type=PDF,
        )


def load_applications(session: Session, *, now: datetime) -> int:
    """Add the missing applications, and an unused upload.

    :param now: present time; the applications are some days old
    :return: number of new applications
    """
    unused_id = seeded_id(SeededKind.DOCUMENT, len(_APPLICATIONS) + 1)
    if session.get(PrivateDocument, unused_id) is None:
        session.add(
            PrivateDocument(
                id=unused_id,
                owner_id=persona_named("buyer2").user_id,
                key=demo_ids.STUDENT_ID_PATH,
                content_type=PDF,
                byte_count=1_000,
                status="ready",
                delete_after=now + UNUSED_GRACE_PERIOD,
                created_at=now,
            )
        )
    return sum(
        _add_application(session, number, status, slug, now=now)
        for number, (status, slug) in enumerate(_APPLICATIONS, 1)
    )


def _document_key(number: int) -> str:
    return f"student-ids/demo-{number}.pdf"


def _add_application(session: Session, number: int, status: str, slug: str, *, now: datetime) -> bool:
    application_id = seeded_id(SeededKind.APPLICATION, number)
    if session.get(VendorApplication, application_id) is not None:
        return False
    user_id: UUID = STORES[1].user_id if status == "approved" else student_id(number)
    at = now - timedelta(days=10 - number)
    document = PrivateDocument(
        id=seeded_id(SeededKind.DOCUMENT, number),
        owner_id=user_id,
        key=_document_key(number),
        content_type=PDF,
        byte_count=1_000,
        status="ready",
        delete_after=None if status in ("submitted", "under_review", "needs_info") else now + timedelta(30),
        created_at=at,
    )
    session.add(document)
    name = session.get_one(Profile, user_id).name or ""
    decided = status in ("approved", "rejected")
    session.add(
        VendorApplication(
            id=application_id,
            user_id=user_id,
            status=status,
            store_name=slug.replace("-", " ").title(),
            slug=slug,
            campus_id=campus_id(MAIN_CAMPUS),
            category_ids=[demo_ids.CATEGORY],
            description=_DESCRIPTION,
            document_id=document.id,
            bank_code="058",
            bank_name="Guaranty Trust Bank",
            account_number=f"20000000{number:02d}",
            account_name=name.upper(),
            recipient_code=f"RCP_demo{number:08d}",
            question=_QUESTION if status == "needs_info" else None,
            decided_by=demo_ids.MODERATOR if decided else None,
            decided_at=at + timedelta(days=1) if decided else None,
            decision_reason=_REASON if status == "rejected" else None,
            vendor_id=STORES[1].id if status == "approved" else None,
            created_at=at,
            updated_at=at,
        )
    )
    session.flush()
    return True
