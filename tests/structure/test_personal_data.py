"""Columns with personal data are marked in the model, and logs redact all of these columns."""

import re

import pytest
from sqlalchemy import Column

from marketplace.identity.models import CONTACT
from marketplace.infra.encryption import BlindIndex, EncryptedText
from marketplace.kernel.redaction import MARKER, redact
from marketplace.models import metadata

KINDS = {
    *(
        "address",
        "bank_account",
        "contact",
        "device",
        "email",
        "event",
        "ip_address",
        "message",
        "name",
        "phone",
    ),
    *("picture", "response"),
}
COLUMNS: list[Column[object]] = [column for table in metadata.tables.values() for column in table.columns]
PERSONAL = {f"{column.table.name}.{column.name}": column for column in COLUMNS if "personal" in column.info}

LOOKS_PERSONAL = re.compile(
    r"(?:^|_)(?:phone|mobile|e?mail|name|surname|address|hostel|hall|room_number|latitude|longitude|contact|sender"
    r"|account_number|bvn|nin|passport|birth\w*|gender|avatar_url|ip|ip_address|user_agent|device|token|password|pin"
    # Free text, and ids that the messaging provider derives from phone numbers.
    r"|body|comment|instructions|label|note|reason|text|dedupe_id|provider_message_id|replies_to)$"
)
# Columns whose names look personal, and the reason why they are not.
NOT_PERSONAL = {
    "assistant_threads.flag_reason": "one of four codes",
    "banned_terms.note": "about a term",
    "campuses.name": "a campus",
    "content_reports.reason": "one of six codes",
    "report_clearances.reason": "one of six codes",
    "categories.name": "a category",
    "daily_counts.label": "names of routes, clients and origins",
    "hostels.name": "a building",
    "hubs.name": "a public place",
    "hubs.address": "a public place",
    "hubs.latitude": "a public place",
    "hubs.longitude": "a public place",
    "payout_accounts.bank_name": "a bank",
    "public_holidays.name": "a holiday",
    "messages.sender": "the side: buyer or vendor",
    "payout_halts.reason": "a finding of the service",
    "payout_transfer_intents.failure_reason": "one of the service's own texts",
    "periodic_tasks.name": "a task",
    "quarantined_charges.reason": "one of five codes",
    "search_documents.body": "a public listing",
    "transfer_accounts.bank_name": "a bank",
    "vendor_applications.bank_name": "a bank",
    "vendor_applications.store_name": "the public name of a store",
    "vendor_profiles.display_name": "the public name of a store",
}
# Names with other meanings in logs. Values are redacted by shape, and names of people under the names of roles.
AMBIGUOUS = {
    *(
        "body",
        "comment",
        "contact",
        "content",
        "description",
        "finding",
        "id",
        "instructions",
        "label",
        "note",
    ),
    *("payload", "rationale", "reason", "response", "sender", "subject", "text"),
}
NAMES_OF_PEOPLE = {
    "account_name",
    "buyer_name",
    "display_name",
    "full_name",
    "holder_name",
    "owner_name",
    "payee_name",
}
SAMPLE = "Call +2348031234567 or write to ada@mail.example, account 0123456789"


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def test_marked_kinds_of_personal_data_are_known() -> None:
    assert {column.info["personal"] for column in PERSONAL.values()} == KINDS


def test_column_with_a_personal_name_is_marked() -> None:
    found = {f"{column.table.name}.{column.name}" for column in COLUMNS if LOOKS_PERSONAL.search(column.name)}
    assert found - PERSONAL.keys() == NOT_PERSONAL.keys()


@pytest.mark.parametrize("column", PERSONAL.values(), ids=PERSONAL)
def test_personal_column_is_redacted_in_logs(column: Column[object]) -> None:
    names = NAMES_OF_PEOPLE if column.name == "name" else {column.name}
    for name in names:
        for key in (name, camel_case(name), f"{column.table.name}.{name}"):
            logged = redact({key: SAMPLE})[key]
            if name in AMBIGUOUS:
                assert not re.search(r"803|ada@|0123", logged), key
            else:
                assert logged == MARKER, key


def test_bank_accounts_are_encrypted() -> None:
    types = {
        name: type(column.type)
        for name, column in PERSONAL.items()
        if column.info["personal"] == "bank_account"
    }
    assert types == {
        "payout_accounts.account_number": EncryptedText,
        "payout_accounts.account_number_index": BlindIndex,
        "transfer_accounts.account_number": EncryptedText,
        "vendor_applications.account_number": EncryptedText,
    }


def test_phone_numbers_are_encrypted() -> None:
    plain = {
        name
        for name, column in PERSONAL.items()
        if column.info["personal"] in {"phone", "contact"} and not isinstance(column.type, EncryptedText)
    }
    # Ids of messages, which the messaging provider derives from phone numbers.
    assert {name.rpartition(".")[2] for name in plain} == {
        "id",
        "dedupe_id",
        "provider_message_id",
        "replies_to",
    }


def test_encrypted_values_are_bound_to_the_column() -> None:
    encrypted = [column for column in COLUMNS if isinstance(column.type, EncryptedText | BlindIndex)]
    places = {
        f"{column.table.name}.{column.name}".removesuffix("_index"): column.type.context
        for column in encrypted
        if column.type.context != CONTACT.context  # shared, so that SQL can copy and compare values
    }
    assert encrypted
    assert places == {place: place for place in places}
