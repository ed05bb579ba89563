"""The bank directory and account name resolution."""

import hashlib
import re

from flask import Blueprint, Response, request

from sandbox.providers import fields
from sandbox.providers.gateway.answers import GatewayFailure, success
from sandbox.providers.gateway.listing import Page, chosen, cursor

routes = Blueprint("banks", __name__)

_BANKS_SINCE = "2020-01-01T00:00:00.000Z"
# Real codes of Nigerian banks, because forms and saved accounts of the demo use real codes.
BANKS: tuple[tuple[str, str], ...] = (
    ("Access Bank", "044"),
    ("Citibank Nigeria", "023"),
    ("Ecobank Nigeria", "050"),
    ("Fidelity Bank", "070"),
    ("First Bank of Nigeria", "011"),
    ("First City Monument Bank", "214"),
    ("Guaranty Trust Bank", "058"),
    ("Jaiz Bank", "301"),
    ("Keystone Bank", "082"),
    ("Kuda Bank", "50211"),
    ("Moniepoint MFB", "50515"),
    ("OPay Digital Services", "999992"),
    ("PalmPay", "999991"),
    ("Polaris Bank", "076"),
    ("Providus Bank", "101"),
    ("Stanbic IBTC Bank", "221"),
    ("Standard Chartered Bank", "068"),
    ("Sterling Bank", "232"),
    ("Union Bank of Nigeria", "032"),
    ("United Bank For Africa", "033"),
    ("Unity Bank", "215"),
    ("Wema Bank", "035"),
    ("Zenith Bank", "057"),
)
_NAMES_BY_CODE = {code: name for name, code in BANKS}
_ACCOUNT_NUMBER = re.compile(r"[0-9]{10}")
# Account numbers with this prefix do not resolve. Tests and demos use such numbers for the failure case.
UNKNOWN_ACCOUNT_PREFIX = "000"
_FIRST_NAMES = ("ADAEZE", "BOLAJI", "CHINEDU", "DAMILOLA", "EBUN", "FATIMA", "GARBA", "HADIZA")
_LAST_NAMES = ("ABIOLA", "DANLADI", "EKWUEME", "FASHOLA", "GIWA", "IKENNA", "LADIPO", "OKONKWO")


def bank_name(bank_code: str) -> str:
    """Return a bank's name.

    :raises GatewayFailure: no bank has this code
    """
    name = _NAMES_BY_CODE.get(bank_code)
    if name is None:
        raise GatewayFailure(400, f"Unknown bank code: {bank_code[:20]}", code="invalid_bank_code")
    return name


def account_holder(account_number: str, bank_code: str) -> str:
    """Return an account holder's name, which is invented but always the same for an account.

    :raises GatewayFailure: the bank is unknown (400), or the account does not exist (422)
    """
    bank_name(bank_code)
    if not _ACCOUNT_NUMBER.fullmatch(account_number) or account_number.startswith(UNKNOWN_ACCOUNT_PREFIX):
        raise GatewayFailure(422, "Could not resolve account name. Check parameters or try again.")
    digest = hashlib.sha256(f"{bank_code}/{account_number}".encode()).digest()
    first = _FIRST_NAMES[digest[0] % len(_FIRST_NAMES)]
    return f"{first} {_LAST_NAMES[digest[1] % len(_LAST_NAMES)]}"


def _bank_body(index: int) -> dict[str, object]:
    name, code = BANKS[index]
    return {
        "name": name,
        "slug": name.lower().replace(" ", "-"),
        "code": code,
        "longcode": "",
        "gateway": None,
        "pay_with_bank": False,
        "supports_transfer": True,
        "available_for_direct_debit": False,
        "active": True,
        "is_deleted": False,
        "country": "Nigeria",
        "currency": "NGN",
        "type": "nuban",
        "id": index + 1,
        "createdAt": _BANKS_SINCE,
        "updatedAt": _BANKS_SINCE,
    }


def _is_listed() -> bool:
    """Return whether the query's filters match the banks, which are all Nigerian."""
    return all(
        (chosen(request.args, name) or only).lower() == only
        for name, only in (("country", "nigeria"), ("currency", "ngn"), ("type", "nuban"))
    )


@routes.get("/bank")
def list_banks() -> Response:
    """List all banks, or a page of banks by cursor if ``use_cursor`` is true."""
    banks = [_bank_body(index) for index in range(len(BANKS))] if _is_listed() else []
    page = Page(request.args, cursors="bank")
    if not page.by_cursor:
        return success("Banks retrieved", banks)
    start = page.before if page.before is not None else page.after or 0
    end = start + page.per_page
    meta = {
        "next": cursor("bank", end) if end < len(banks) else None,
        "previous": cursor("bank", max(0, start - page.per_page)) if start else None,
        "perPage": page.per_page,
    }
    return success("Banks retrieved", banks[start:end], meta=meta)


@routes.get("/bank/resolve")
def resolve_account() -> Response:
    """Return the account holder's name of a bank account."""
    account_number = fields.text(request.args, "account_number", maximum=20)
    holder = account_holder(account_number, fields.text(request.args, "bank_code", maximum=20))
    return success("Account number resolved", {"account_number": account_number, "account_name": holder})
