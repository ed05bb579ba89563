"""People with personal data in many tables, for tests of erasures: a buyer and a vendor who have done business."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from random import randrange
from uuid import UUID, uuid4

from sqlalchemy import Text, select, text, type_coerce, update
from sqlalchemy.orm import Session

from marketplace.applications.models import VendorApplication
from marketplace.assistant.threads import NewThreadMessage, add_answer, start_turn
from marketplace.catalog.models import Product, ProductImage
from marketplace.chat.models import ChatMessageImage
from marketplace.chat.send import MessageContent, send_to_store
from marketplace.idempotency.models import RESPONSE_TEXT
from marketplace.identity.models import FormerContact, PhoneCode, Profile
from marketplace.identity.operations import add_address
from marketplace.infra.encryption import EncryptionError
from marketplace.ledger import accounts
from marketplace.ledger.operations import Posting, post_transaction
from marketplace.ledger.queries import fetch_balance
from marketplace.media.models import Image, PrivateDocument
from marketplace.models import metadata
from marketplace.notifications.devices import register_device
from marketplace.notifications.operations import notify
from marketplace.orders.models import Order
from marketplace.payments.models import PaymentTransferAccount
from marketplace.privacy.key_rotation import list_encrypted_columns
from marketplace.privacy.models import PrivacyExport
from marketplace.providers.storage import StoredObject
from marketplace.reviews.models import Review, ReviewImage
from marketplace.reviews.submit import submit_review
from marketplace.support.models import SupportAttachment, SupportContact, SupportContactMessage
from marketplace.support.tickets import open_ticket
from marketplace.vendors.models import VendorProfile
from tests.support.finance import delivered_order
from tests.support.object_storage import InMemoryStorage
from tests.support.payouts import make_account
from tests.support.purchases import NOW, Shop, make_product


@dataclass
class Life:
    """A buyer and a vendor of a shop, with the strings that identify each, and the keys of each one's files."""

    shop: Shop
    buyer_strings: list[str]
    vendor_strings: list[str]
    buyer_files: list[str]
    vendor_files: list[str]
    evidence_file: str
    mark: str = field(default_factory=lambda: uuid4().hex[:8])

    def of_buyer(self, words: str) -> str:
        """Return words that only the buyer's data have."""
        self.buyer_strings.append(f"{words} {self.mark}")
        return self.buyer_strings[-1]

    def of_vendor(self, words: str) -> str:
        """Return words that only the vendor's data have."""
        self.vendor_strings.append(f"{words} {self.mark}")
        return self.vendor_strings[-1]

    def slug(self) -> str:
        """Return the address of a store."""
        self.vendor_strings.append(f"adaeze-{uuid4().hex[:8]}")
        return self.vendor_strings[-1]

    def number(self, strings: list[str], prefix: str, digits: int) -> str:
        """Return a random number of a person."""
        strings.append(prefix + "".join(str(randrange(10)) for _ in range(digits)))  # noqa: S311 - no secret
        return strings[-1]


def make_life(session: Session, storage: InMemoryStorage, shop: Shop) -> Life:
    """Fill the tables of both people. All orders have ended, and no money is left."""
    buyer, vendor = shop.buyer.id, shop.vendor.id
    life = Life(shop, [], [], [], [], "")
    order_id = delivered_order(session, shop)
    _fill_profile(session, storage, life)
    _fill_order(session, life, order_id)
    _fill_chat(session, storage, life)
    _fill_review(session, storage, life, order_id)
    _fill_support(session, storage, life)
    _fill_assistant(session, life)
    _fill_store(session, storage, life)
    life.evidence_file = _document(session, storage, buyer, "evidence")
    for person, words in ((buyer, life.buyer_strings), (vendor, life.vendor_strings)):
        body = f"Secret note for {person.hex[:6]}"
        notify(
            session, user_id=person, type="order_paid", title="Paid", body=body, link=None,
            cause=f"life:{uuid4()}", now=NOW,
        )  # fmt: skip
        words.append(body)
    _pay_out(session, life)
    return life


def _pay_out(session: Session, life: Life) -> None:
    payable = accounts.vendor_payable(life.shop.store_id)
    amount_minor = fetch_balance(session, account=payable)
    post_transaction(
        session,
        kind="reward",
        source=f"life:{life.shop.store_id}",
        description="Paid out",
        postings=[
            Posting(payable, "debit", amount_minor),
            Posting(accounts.GATEWAY_CLEARING, "credit", amount_minor),
        ],
        now=NOW,
    )


def _fill_profile(session: Session, storage: InMemoryStorage, life: Life) -> None:
    buyer = life.shop.buyer.id
    key = _image(session, storage, buyer, "avatar")
    profile = session.get_one(Profile, buyer)
    profile.name = life.of_buyer("Zubaida Okonkwo-Bright")
    profile.email = life.of_buyer("zubaida.bright@north.example.edu")
    profile.phone = life.number(life.buyer_strings, "+23480", 8)
    profile.avatar_url = life.of_buyer("https://pictures.example.org/zubaida.jpg")
    session.flush()
    life.buyer_files.append(key)
    add_address(
        session,
        user_id=buyer,
        fields={
            "hostel": life.of_buyer("Peacock Hostel"),
            "room_number": life.of_buyer("Q-417"),
            "instructions": life.of_buyer("Whistle thrice"),
        },
        now=NOW,
    )
    session.add(
        FormerContact(
            user_id=buyer, kind="phone", contact=life.number(life.buyer_strings, "+23480", 8), replaced_at=NOW
        )
    )
    session.add(
        PhoneCode(
            user_id=buyer,
            phone="+2348030000000",
            phone_index="+2348030000000",
            created_at=NOW,
            expires_at=NOW + timedelta(hours=1),
        )
    )
    register_device(
        session,
        user_id=buyer,
        name=life.of_buyer("Zuby's Tecno Spark"),
        subscription=None,
        token=uuid4().hex,
        now=NOW,
    )
    session.add(PrivacyExport(user_id=buyer, nonce=b"x" * 32, requested_at=NOW))
    session.execute(
        text(
            "INSERT INTO idempotency_keys (caller, method, path, key, request_hash, claimed_at, completed_at,"
            " response_status, response_type, response_text, expires_at)"
            " VALUES (:caller, 'POST', '/api/orders', :key, 'x', :now, :now, 201, 'application/json', :body, :later)"
        ),
        {
            "caller": str(buyer),
            "key": str(uuid4()),
            "now": NOW,
            "later": NOW + timedelta(days=1),
            "body": RESPONSE_TEXT.encrypt(life.of_buyer("Dove wing 9")),
        },
    )


def _fill_order(session: Session, life: Life, order_id: UUID) -> None:
    order = session.get_one(Order, order_id)
    order.shipping_address = {"hostel": life.of_buyer("Falcon Court"), "roomNumber": "K-88"}
    order.delivery_phone = life.number(life.buyer_strings, "+23480", 8)
    order.note = life.of_buyer("Ring the blue bell")
    order.tracking_note = life.of_buyer("Met her by the old baobab")
    session.flush()
    intent_id = session.scalar(
        text("SELECT a.intent_id FROM payment_allocations a WHERE a.order_id = :id LIMIT 1"), {"id": order_id}
    )
    if intent_id is not None:
        session.add(
            PaymentTransferAccount(
                intent_id=intent_id,
                bank_name="Wema",
                account_number="9900112233",
                account_name=life.of_buyer("CM/ZUBAIDA OKONKWO"),
                expires_at=NOW,
                created_at=NOW,
            )
        )
        make_account(
            session,
            life.shop.buyer.id,
            account_name=life.of_buyer("ZUBAIDA O BRIGHT"),
            account_number=life.number(life.buyer_strings, "07", 8),
        )


def _fill_chat(session: Session, storage: InMemoryStorage, life: Life) -> None:
    party = send_to_store(
        session,
        sender_id=life.shop.buyer.id,
        vendor_id=life.shop.store_id,
        content=MessageContent(life.of_buyer("I will wear a purple scarf")),
        now=NOW,
    )
    image_id, key = _image_row(session, storage, life.shop.buyer.id, "chat")
    message_id = party.conversation.last_message_id
    session.add(ChatMessageImage(message_id=message_id, position=0, image_id=image_id))
    life.buyer_files.append(key)
    session.execute(
        text(
            "INSERT INTO messages (conversation_id, number, sender, body, created_at)"
            " VALUES (:id, 2, 'vendor', :body, :now)"
        ),
        {"id": party.conversation.id, "body": life.of_vendor("Behind the yellow kiosk"), "now": NOW},
    )
    session.execute(
        text("UPDATE conversations SET message_count = 2 WHERE id = :id"), {"id": party.conversation.id}
    )


def _fill_review(session: Session, storage: InMemoryStorage, life: Life, order_id: UUID) -> None:
    review_id = submit_review(
        session,
        author_id=life.shop.buyer.id,
        vendor_id=life.shop.store_id,
        order_id=order_id,
        rating=4,
        text=life.of_buyer("The lamp lights my marble desk well"),
        now=NOW,
    )
    session.flush()
    image_id, key = _image_row(session, storage, life.shop.buyer.id, "review")
    session.add(ReviewImage(review_id=review_id, position=0, image_id=image_id))
    life.buyer_files.append(key)
    session.execute(
        update(Review)
        .where(Review.id == review_id)
        .values(reply_text=life.of_vendor("Come again, says my cousin Bartholomew"), replied_at=NOW)
    )


def _fill_support(session: Session, storage: InMemoryStorage, life: Life) -> None:
    buyer = life.shop.buyer.id
    ticket = open_ticket(
        session,
        creator_id=buyer,
        subject=life.of_buyer("My turquoise parcel"),
        message=life.of_buyer("I left it with my aunt Philomena"),
        category="delivery",
        order_id=None,
        now=NOW,
    )
    session.flush()
    message_id = session.scalar(
        text("SELECT id FROM support_ticket_messages WHERE ticket_id = :id ORDER BY number LIMIT 1"),
        {"id": ticket.id},
    )
    document_id, key = _document_row(session, storage, buyer, "support")
    session.add(
        SupportAttachment(
            document_id=document_id, message_id=message_id, name=life.of_buyer("zuby-receipt.pdf")
        )
    )
    life.buyer_files.append(key)
    contact = SupportContact(
        sender=life.number(life.buyer_strings, "23481", 8),
        phone=life.number(life.buyer_strings, "+23482", 8),
        display_name=life.of_buyer("Zuby B."),
        profile_id=buyer,
        first_message_at=NOW,
        last_message_at=NOW,
        created_at=NOW,
    )
    session.add(contact)
    session.flush()
    session.add(
        SupportContactMessage(
            contact_id=contact.id,
            provider_message_id=f"wamid.{uuid4().hex}",
            type="text",
            text=life.of_buyer("Is the crimson gate open?"),
            content={"body": life.of_buyer("the crimson gate")},
            sent_at=NOW,
            received_at=NOW,
        )
    )


def _fill_assistant(session: Session, life: Life) -> None:
    turn = start_turn(
        session,
        user_id=life.shop.buyer.id,
        thread_id=None,
        messages=[NewThreadMessage("user", life.of_buyer("Find a gift for my twin Kehinde"))],
        now=NOW,
    )
    add_answer(
        session,
        user_id=life.shop.buyer.id,
        thread_id=turn.thread_id,
        number=turn.next_number,
        body=life.of_buyer("A lantern for Kehinde costs NGN 2,500"),
        is_complete=True,
        now=NOW,
    )


def _fill_store(session: Session, storage: InMemoryStorage, life: Life) -> None:
    vendor, store_id = life.shop.vendor.id, life.shop.store_id
    session.execute(
        update(Profile)
        .where(Profile.id == vendor)
        .values(name=life.of_vendor("Ngozi Adaeze"), email=life.of_vendor("ngozi@north.example.edu"))
    )
    session.execute(
        update(VendorProfile)
        .where(VendorProfile.id == store_id)
        .values(
            display_name=life.of_vendor("Adaeze Lanterns"),
            slug=life.slug(),
            description=life.of_vendor("Lamps by Adaeze"),
            vacation_note=life.of_vendor("At my mother's in Nsukka"),
        )
    )
    product_id = make_product(session, life.shop, description=life.of_vendor("Hand-made by Adaeze"))
    session.execute(
        update(Product).where(Product.id == product_id).values(title=life.of_vendor("Adaeze glow lantern"))
    )
    image_id, key = _image_row(session, storage, vendor, "product")
    session.add(ProductImage(product_id=product_id, position=0, image_id=image_id))
    life.vendor_files.append(key)
    document_id, key = _document_row(session, storage, vendor, "student-ids")
    life.vendor_files.append(key)
    session.add(
        VendorApplication(
            user_id=vendor,
            status="approved",
            store_name=life.of_vendor("Lanterns of Adaeze"),
            slug=life.slug(),
            campus_id=life.shop.campus_id,
            category_ids=[life.shop.category_id],
            description=life.of_vendor("I make lanterns in Nsukka"),
            document_id=document_id,
            bank_code="058",
            bank_name="Guaranty Trust Bank",
            account_number=life.number(life.vendor_strings, "07", 8),
            account_name=life.of_vendor("NGOZI ADAEZE"),
            recipient_code=life.of_vendor("RCP_life"),
            decided_by=life.shop.buyer.id,
            decided_at=NOW,
            vendor_id=store_id,
            created_at=NOW,
            updated_at=NOW,
        )
    )
    make_account(
        session,
        vendor,
        account_name=life.of_vendor("NGOZI A"),
        account_number=life.number(life.vendor_strings, "07", 8),
    )


def _image(session: Session, storage: InMemoryStorage, owner_id: UUID, purpose: str) -> str:
    return _image_row(session, storage, owner_id, purpose)[1]


def _image_row(session: Session, storage: InMemoryStorage, owner_id: UUID, purpose: str) -> tuple[UUID, str]:
    key = f"{purpose}/{uuid4().hex}.webp"
    image = Image(
        owner_id=owner_id, purpose=purpose, key=key, renditions=[{"key": f"{key}-large"}], created_at=NOW
    )
    session.add(image)
    session.flush()
    for stored in (key, f"{key}-large"):
        storage.objects[stored] = StoredObject(stored, b"picture", "image/webp")
    return image.id, key


def _document(session: Session, storage: InMemoryStorage, owner_id: UUID, folder: str) -> str:
    return _document_row(session, storage, owner_id, folder)[1]


def _document_row(
    session: Session, storage: InMemoryStorage, owner_id: UUID, folder: str
) -> tuple[UUID, str]:
    key = f"{folder}/{uuid4().hex}.pdf"
    document = PrivateDocument(
        owner_id=owner_id,
        key=key,
        content_type="application/pdf",
        byte_count=8,
        status="ready",
        created_at=NOW,
    )
    session.add(document)
    session.flush()
    storage.objects[key] = StoredObject(key, b"document", "application/pdf")
    return document.id, key


_SELECT_TABLES = (
    "SELECT table_name FROM information_schema.tables"
    " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
)
# Bytes are shown in hex, so their text is searched too.
_SEARCH_TABLE = (
    "SELECT sought FROM unnest(CAST(:strings AS text[])) sought WHERE EXISTS (SELECT FROM {table} t"
    " WHERE position(sought IN CAST(t AS text)) > 0"
    " OR position(encode(convert_to(sought, 'UTF8'), 'hex') IN CAST(t AS text)) > 0)"
)


def find_strings(session: Session, strings: list[str]) -> dict[str, set[str]]:
    """Search all tables for strings, also in encrypted values, and return the tables with each string."""
    found: dict[str, set[str]] = {}
    for table in session.scalars(text(_SELECT_TABLES)).all():
        for words in session.scalars(text(_SEARCH_TABLE.format(table=table)), {"strings": strings}):
            found.setdefault(words, set()).add(table)
    for encrypted in list_encrypted_columns(metadata.tables):
        stored = session.scalars(
            select(type_coerce(encrypted.column, Text)).where(encrypted.column.is_not(None))
        )
        for value in stored:
            # Other tests leave values of other keys and of no key.
            with suppress(EncryptionError):
                plain = encrypted.column.type.process_result_value(value, session.get_bind().dialect)
                for words in strings:
                    if words in str(plain):
                        found.setdefault(words, set()).add(encrypted.table.name)
    return found
