"""Schemas of vendor applications."""

from marshmallow import fields

from blueprints.http.field_docs import PLACED_AT, STORE_NAME, doc
from blueprints.http.fields import (
    AccountNumber,
    BankCode,
    Choice,
    Created,
    CursorQuery,
    Identified,
    Phone,
    Schema,
    SingleLineText,
    StrictInteger,
    Text,
    Timestamp,
    UniqueList,
    Uuid,
)
from marketplace.applications import slugs, states, submit
from marketplace.kernel import demo_ids

_DESCRIPTION = "Lamps and chargers for your room. Orders before noon go out the same day."
_PATH = demo_ids.STUDENT_ID_PATH
_PATH_LENGTHS = {"min_length": 1, "max_length": 200}


class SlugAvailability(Schema):
    """Whether a store can have a slug."""

    slug = fields.String(required=True)
    available = fields.Boolean(required=True, metadata=doc("Whether the slug is free.", True))
    reason = Choice(
        *slugs.SLUG_FAULTS,
        required=True,
        allow_none=True,
        metadata=doc("Why the slug cannot be used; null for a free slug.", None),
    )
    detail = fields.String(
        required=True, allow_none=True, metadata=doc("The reason in words; null for a free slug.", None)
    )


class StudentId(Schema):
    """An uploaded student ID."""

    path = fields.String(required=True, metadata=doc("Path for the application.", _PATH))


class ApplicationBankAccount(Schema):
    """The bank account for payouts."""

    bank_code = BankCode(required=True)
    account_number = AccountNumber(
        required=True, metadata=doc("Account number (NUBAN), 10 digits, in your own name.", "0123456789")
    )


class SubmitApplication(Schema):
    """An application to open a store."""

    store_name = SingleLineText(
        min_length=2, max_length=80, required=True, metadata=doc("Public name of the store.", STORE_NAME)
    )
    slug = SingleLineText(
        min_length=1,
        max_length=slugs.MAX_LENGTH,
        required=True,
        metadata=doc("Address of the store: 3 to 40 letters, digits and hyphens.", "amaras-lamps"),
    )
    campus_id = Uuid(required=True, metadata=doc("Campus of the store.", demo_ids.CAMPUS))
    category_ids = UniqueList(
        Uuid(),
        min_length=1,
        max_length=submit.MAX_CATEGORIES,
        required=True,
        metadata=doc("Categories of the listings, at most 5.", [demo_ids.CATEGORY]),
    )
    description = Text(
        min_length=20,
        max_length=2_000,
        required=True,
        metadata=doc("Introduction of the store.", _DESCRIPTION),
    )
    phone = Phone(required=True, metadata=doc("Your verified phone number.", "+2348030000002"))
    student_id_path = SingleLineText(
        **_PATH_LENGTHS, required=True, metadata=doc("Path of the uploaded student ID.", _PATH)
    )
    bank_account = fields.Nested(
        ApplicationBankAccount, required=True, metadata=doc("Bank account for payouts.")
    )


class AnswerQuestion(Schema):
    """The answer to a question of staff."""

    answer = Text(
        min_length=2,
        max_length=2_000,
        required=True,
        metadata=doc("Answer to the question.", "The ID was renewed. I have uploaded the new card."),
    )
    student_id_path = SingleLineText(**_PATH_LENGTHS, metadata=doc("Path of another student ID.", _PATH))


class OwnApplication(Created):
    """A vendor application."""

    example_id = demo_ids.APPLICATION

    status = Choice(
        *sorted(states.APPLICATION.states),
        required=True,
        metadata=doc("Status of the application.", states.UNDER_REVIEW),
    )
    store_name = fields.String(required=True, metadata=doc("Public name of the store.", STORE_NAME))
    slug = fields.String(required=True)
    campus_id = Uuid(required=True, metadata=doc("Campus of the store.", demo_ids.CAMPUS))
    category_ids = fields.List(
        Uuid(), required=True, metadata=doc("Categories of the listings.", [demo_ids.CATEGORY])
    )
    description = fields.String(required=True, metadata=doc("Introduction of the store.", _DESCRIPTION))
    question = fields.String(
        required=True, allow_none=True, metadata=doc("Question of staff; null without one.", None)
    )
    answer = fields.String(
        attribute="comment",
        required=True,
        allow_none=True,
        metadata=doc("Answer of the applicant; null without one.", None),
    )
    decision_reason = fields.String(
        required=True, allow_none=True, metadata=doc("Reason of a rejection; null otherwise.", None)
    )
    decided_at = Timestamp(
        required=True, allow_none=True, metadata=doc("Time of the decision; null before.", None)
    )
    vendor_id = Uuid(
        required=True, allow_none=True, metadata=doc("Id of the opened store; null before.", None)
    )
    revision = StrictInteger(minimum=1, required=True)
    updated_at = Timestamp(required=True)


class Applicant(Identified):
    """The applicant of a vendor application."""

    example_id = demo_ids.STUDENT

    name = fields.String(
        required=True, allow_none=True, metadata=doc("Full name; null without one.", "Amara Okafor")
    )
    email = fields.String(
        required=True,
        allow_none=True,
        metadata=doc("E-mail address; null without one.", "student1@north.example.edu"),
    )
    phone = fields.String(required=True, allow_none=True)


class ApplicationQuery(CursorQuery):
    """Filters of vendor applications."""

    status = Choice(
        *sorted(states.APPLICATION.states),
        load_default=states.SUBMITTED,
        metadata=doc("Only applications with this status.", states.SUBMITTED),
    )
    campus_id = Uuid(metadata=doc("Only applications of this campus.", demo_ids.CAMPUS))


class StaffApplication(Schema):
    """A vendor application for staff, with the checks before an approval."""

    application = fields.Nested(OwnApplication, required=True, metadata=doc("The application."))
    applicant = fields.Nested(Applicant, required=True, metadata=doc("The applicant."))
    phone_verified = fields.Boolean(
        required=True, metadata=doc("Whether the applicant's phone number is verified.", True)
    )
    bank_name = fields.String(
        required=True, attribute="application.bank_name", metadata=doc("Name of the bank.", "Access Bank")
    )
    account_number = fields.String(required=True, attribute="masked_account_number")
    account_name = fields.String(required=True, attribute="application.account_name")
    account_name_matches = fields.Boolean(
        required=True, metadata=doc("Whether the bank's name resembles the applicant's name.", True)
    )
    decided_by = Uuid(
        required=True,
        allow_none=True,
        attribute="application.decided_by",
        metadata=doc("Officer who decided; null before.", None),
    )


class DocumentLink(Schema):
    """A link to a student ID."""

    url = fields.String(
        required=True,
        metadata=doc(
            "Link that downloads the document.", "https://storage.example.com/student-ids/x?signature=y"
        ),
    )
    expires_at = Timestamp(required=True, metadata=doc("End of the link's validity.", PLACED_AT))


class RequestInfo(Schema):
    """A question to the applicant."""

    question = Text(
        min_length=10,
        max_length=1_000,
        required=True,
        metadata=doc("Question, shown to the applicant.", "The ID has expired. Please upload the new card."),
    )


class RejectApplication(Schema):
    """The reason of a rejection."""

    reason = Text(
        min_length=10,
        max_length=500,
        required=True,
        metadata=doc("Reason, shown to the applicant.", "The ID belongs to another person."),
    )
