"""The gateway's JSON objects, with every field that a client could read."""

import hashlib
import json
import sqlite3
from datetime import datetime
from typing import Any

INTEGRATION = 463_433
DOMAIN = "test"
LOOPBACK_ADDRESS = "127.0.0.1"
BANK_ACCOUNT_HOLDER = "CAMPUS SANDBOX"
TRANSFER_BANK = {"slug": "test-bank", "name": "Test Bank", "id": 24}

Body = dict[str, Any]


def stored_json(value: object) -> str | None:
    """Serialize a JSON value for a column, keeping None as NULL."""
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def loaded_json(value: str | None) -> Any:
    """Parse a value written by ``stored_json``."""
    return None if value is None else json.loads(value)


def customer_body(row: sqlite3.Row) -> Body:
    """Describe a customer inside another object."""
    return {
        "id": row["id"],
        "first_name": row["first_name"],
        "last_name": row["last_name"],
        "email": row["email"],
        "customer_code": row["customer_code"],
        "phone": row["phone"],
        "metadata": loaded_json(row["metadata"]),
        "risk_action": "default",
        "international_format_phone": None,
    }


def whole_customer_body(row: sqlite3.Row) -> Body:
    """Describe a customer as the response of the customer endpoints."""
    return {
        **customer_body(row),
        "integration": INTEGRATION,
        "domain": DOMAIN,
        "identified": False,
        "identifications": None,
        "transactions": [],
        "subscriptions": [],
        "authorizations": [],
        "createdAt": row["created_at"],
        "updatedAt": row["updated_at"],
    }


def _authorization_body(transaction: sqlite3.Row) -> Body:
    """Describe the payment method of a paid transaction. An unpaid transaction has an empty object."""
    if transaction["paid_at"] is None:
        return {}
    seed = hashlib.sha256(transaction["reference"].encode()).hexdigest()
    is_card = transaction["channel"] == "card"
    return {
        "authorization_code": f"AUTH_{seed[:10]}",
        "bin": "408408" if is_card else "000XXX",
        "last4": "4081" if is_card else f"X{int(seed[:6], 16) % 1000:03d}",
        "exp_month": "12",
        "exp_year": "2030",
        "channel": transaction["channel"],
        "card_type": "visa" if is_card else "transfer",
        "bank": "TEST BANK",
        "country_code": "NG",
        "brand": "visa" if is_card else "Managed Account",
        "reusable": is_card,
        "signature": f"SIG_{seed[10:30]}" if is_card else None,
        "account_name": None,
    }


def _log_body(transaction: sqlite3.Row) -> Body | None:
    """Describe the steps on the payment page, if a payment was attempted."""
    return None if transaction["status"] in ("abandoned", "pending") else timeline_body(transaction)


def timeline_body(transaction: sqlite3.Row) -> Body:
    """Describe the steps on the payment page. Without an attempted payment the list of steps is empty."""
    attempted = transaction["status"] not in ("abandoned", "pending")
    paid = transaction["paid_at"] is not None
    started = datetime.fromisoformat(transaction["created_at"])
    channel = transaction["channel"].replace("_", " ")
    ending = f"Successfully paid with {channel}" if paid else f"Could not pay with {channel}"
    steps = [
        {"type": "action", "message": f"Attempted to pay with {channel}", "time": 3},
        {"type": "success" if paid else "error", "message": ending, "time": 4},
    ]
    return {
        "start_time": int(started.timestamp()),
        "time_spent": 4 if attempted else 0,
        "attempts": int(attempted),
        "errors": int(attempted and not paid),
        "success": paid,
        "mobile": False,
        "input": [],
        "history": steps if attempted else [],
    }


def transaction_body(transaction: sqlite3.Row, customer: sqlite3.Row) -> Body:
    """Describe a transaction for verify, lists and charge events."""
    return {
        "id": transaction["id"],
        "domain": DOMAIN,
        "status": transaction["status"],
        "reference": transaction["reference"],
        "receipt_number": None,
        "amount": transaction["amount"],
        "message": None,
        "gateway_response": transaction["gateway_response"],
        "helpdesk_link": None,
        "paid_at": transaction["paid_at"],
        "created_at": transaction["created_at"],
        "channel": transaction["channel"],
        "currency": transaction["currency"],
        "ip_address": LOOPBACK_ADDRESS,
        "metadata": loaded_json(transaction["metadata"]),
        "log": _log_body(transaction),
        "fees": transaction["fees"],
        "fees_split": None,
        "authorization": _authorization_body(transaction),
        "customer": customer_body(customer),
        "plan": None,
        "subaccount": {},
        "split": {},
        "order_id": None,
        "paidAt": transaction["paid_at"],
        "createdAt": transaction["created_at"],
        "requested_amount": transaction["requested_amount"],
        "pos_transaction_data": None,
        "source": {
            "type": "api",
            "source": "merchant_api",
            "identifier": None,
            # Only POST /charge assigns a bank account to a transaction.
            "entry_point": "charge" if transaction["account_number"] else "transaction_initialize",
        },
        "fees_breakdown": None,
        "connect": None,
        "transaction_date": transaction["created_at"],
        "plan_object": {},
    }


def bank_transfer_body(transaction: sqlite3.Row) -> Body:
    """Describe the bank account that receives the transfer for a charge."""
    return {
        "status": "pending_bank_transfer",
        "display_text": "Please make a transfer to the account specified",
        "reference": transaction["reference"],
        "amount": transaction["amount"],
        "account_name": BANK_ACCOUNT_HOLDER,
        "account_number": transaction["account_number"],
        "bank": dict(TRANSFER_BANK),
        "account_expires_at": transaction["account_expires_at"],
    }


def dedicated_account_body(account: sqlite3.Row, customer: sqlite3.Row) -> Body:
    """Describe a customer's dedicated bank account."""
    name = " ".join(part for part in (customer["first_name"], customer["last_name"]) if part)
    return {
        "bank": {"name": TRANSFER_BANK["name"], "id": TRANSFER_BANK["id"], "slug": TRANSFER_BANK["slug"]},
        "account_name": f"{BANK_ACCOUNT_HOLDER} / {name or customer['email']}".upper(),
        "account_number": account["account_number"],
        "assigned": True,
        "currency": "NGN",
        "metadata": {},
        "split_config": {},
        "active": True,
        "id": account["id"],
        "created_at": account["created_at"],
        "updated_at": account["created_at"],
        "assignment": {
            "integration": INTEGRATION,
            "assignee_id": customer["id"],
            "assignee_type": "Customer",
            "expired": False,
            "account_type": "PAY-WITH-TRANSFER-RECURRING",
            "assigned_at": account["created_at"],
        },
        "customer": customer_body(customer),
    }


def recipient_body(row: sqlite3.Row) -> Body:
    """Describe a transfer recipient."""
    return {
        "active": True,
        "createdAt": row["created_at"],
        "currency": row["currency"],
        "description": row["description"],
        "domain": DOMAIN,
        "email": row["email"],
        "id": row["id"],
        "integration": INTEGRATION,
        "metadata": loaded_json(row["metadata"]),
        "name": row["name"],
        "recipient_code": row["recipient_code"],
        "type": "nuban",
        "updatedAt": row["created_at"],
        "is_deleted": False,
        "isDeleted": False,
        "details": {
            "authorization_code": None,
            "account_number": row["account_number"],
            "account_name": row["account_name"],
            "bank_code": row["bank_code"],
            "bank_name": row["bank_name"],
        },
    }


def _transfer_core_body(transfer: sqlite3.Row) -> Body:
    return {
        "domain": DOMAIN,
        "amount": transfer["amount"],
        "currency": transfer["currency"],
        "reference": transfer["reference"],
        "source": "balance",
        "source_details": None,
        "reason": transfer["reason"] or "",
        "status": transfer["status"],
        "failures": None,
        "transfer_code": transfer["transfer_code"],
        "titan_code": None,
        "transferred_at": transfer["transferred_at"],
        "id": transfer["id"],
        "integration": INTEGRATION,
        "request": transfer["id"] + 200_000_000,
        "session": {"provider": None, "id": None},
        "createdAt": transfer["created_at"],
        "updatedAt": transfer["updated_at"],
    }


def initiated_transfer_body(transfer: sqlite3.Row) -> Body:
    """Describe a transfer as the response of the creating call, with the recipient's id."""
    return {
        **_transfer_core_body(transfer),
        "recipient": transfer["recipient_id"],
        "transfersessionid": [],
        "transfertrials": [],
    }


def queued_transfer_body(transfer: sqlite3.Row, recipient: sqlite3.Row) -> Body:
    """Describe a transfer of a bulk call."""
    return {
        "reference": transfer["reference"],
        "recipient": recipient["recipient_code"],
        "amount": transfer["amount"],
        "transfer_code": transfer["transfer_code"],
        "currency": transfer["currency"],
        "status": transfer["status"],
    }


def transfer_body(transfer: sqlite3.Row, recipient: sqlite3.Row) -> Body:
    """Describe a transfer for verify, lists and transfer events."""
    return {
        **_transfer_core_body(transfer),
        "recipient": recipient_body(recipient),
        "fee_charged": 0,
        "fees_breakdown": None,
        "gateway_response": None,
    }


def refund_body(refund: sqlite3.Row, transaction: sqlite3.Row) -> Body:
    """Describe a refund for fetch and lists, with the transaction's id."""
    processed = refund["status"] == "processed"
    return {
        "integration": INTEGRATION,
        "transaction": transaction["id"],
        "dispute": None,
        "settlement": None,
        "domain": DOMAIN,
        "amount": refund["amount"],
        "deducted_amount": refund["amount"] if processed else 0,
        "fully_deducted": processed,
        "currency": refund["currency"],
        "channel": transaction["channel"],
        "status": refund["status"],
        "refunded_by": "sandbox@users.invalid",
        "refunded_at": refund["refunded_at"],
        "reversed_at": refund["reversed_at"],
        "expected_at": refund["created_at"],
        "customer_note": refund["customer_note"],
        "merchant_note": refund["merchant_note"],
        "bank_reference": refund["refund_reference"] if processed else None,
        "id": refund["id"],
        "createdAt": refund["created_at"],
        "updatedAt": refund["updated_at"],
        "created_at": refund["created_at"],
        "updated_at": refund["updated_at"],
    }


def created_refund_body(refund: sqlite3.Row, transaction: sqlite3.Row, customer: sqlite3.Row) -> Body:
    """Describe a refund as the response of the creating call, with the whole transaction."""
    return {**refund_body(refund, transaction), "transaction": transaction_body(transaction, customer)}


def refund_event_body(refund: sqlite3.Row, transaction: sqlite3.Row, customer: sqlite3.Row) -> Body:
    """Describe a refund for refund events, with the references of the refund and the transaction."""
    return {
        "id": refund["id"],
        "status": refund["status"],
        "transaction_reference": transaction["reference"],
        "refund_reference": refund["refund_reference"],
        "amount": refund["amount"],
        "currency": refund["currency"],
        "processor": "instant-transfer",
        "customer": {
            "first_name": customer["first_name"],
            "last_name": customer["last_name"],
            "email": customer["email"],
        },
        "integration": INTEGRATION,
        "domain": DOMAIN,
        "customer_note": refund["customer_note"],
        "merchant_note": refund["merchant_note"],
    }


def balance_entry_body(row: sqlite3.Row) -> Body:
    """Describe a movement of the balance."""
    return {
        "integration": INTEGRATION,
        "domain": DOMAIN,
        "balance": row["balance"],
        "currency": row["currency"],
        "difference": row["difference"],
        "reason": row["reason"],
        "model_responsible": row["model_responsible"],
        "model_row": row["model_row"],
        "id": row["id"],
        "createdAt": row["created_at"],
        "updatedAt": row["created_at"],
    }


def settlement_body(row: sqlite3.Row) -> Body:
    """Describe a settlement to the bank. Fees were already deducted from each charge."""
    return {
        "id": row["id"],
        "domain": DOMAIN,
        "status": "success",
        "currency": row["currency"],
        "integration": INTEGRATION,
        "total_amount": row["amount"],
        "effective_amount": row["amount"],
        "total_fees": 0,
        "total_processed": row["amount"],
        "deductions": None,
        "settlement_date": row["created_at"],
        "settled_by": None,
        "createdAt": row["created_at"],
        "updatedAt": row["created_at"],
    }
