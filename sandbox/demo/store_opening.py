"""The second act of the demo: a student opens a store and sells the first item."""

import io
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from PIL import Image

from sandbox.demo.client import Caller, until
from sandbox.demo.narrator import DemoFailedError, Narrator, naira
from sandbox.demo.purchase import People, browse_campus, fulfil, order_product, pay_order, vendor_share
from sandbox.demo.target import Target

_PUBLISHED_WITHIN_SECONDS = 30.0
# Guaranty Trust Bank. The sandbox gateway knows each account number with a name of its own.
_BANK_CODE = "058"
_CODE_DIGITS = 6


def play_store_opening(
    target: Target, narrator: Narrator, *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Play the opening of a store and its first sale.

    :param pause: sleeps for the given seconds
    :raises DemoFailedError: a step failed
    """
    narrator.say("\nSecond act: a student becomes a vendor and sells the first item.")
    student = _sign_up(target, narrator)
    _verify_phone(target, narrator, student)
    application = _apply(narrator, student)
    _approve(target, narrator, application["id"])
    product = _publish(narrator, student, application, pause=pause)
    buyer = _sign_in(target, narrator, "buyer2")
    narrator.step("Another student orders and pays the item")
    body = {"label": "Demo", "hostel": "Moremi Hall", "roomNumber": "B205", "phone": "+2348030000002"}
    address = buyer.post("/api/users/me/addresses", "id", body=body, expected=201)
    people = People(Caller(target.api, narrator, name="anonymous"), buyer, student)
    order = order_product(people, narrator, product, address)
    pay_order(people, target, narrator, order, pause=pause)
    order = fulfil(people, narrator, order)
    buyer.delete(f"/api/users/me/addresses/{address['id']}", "id", "deleted")
    narrator.done(
        f"The store {application['slug']} sold its first item. The store is owed NGN {naira(vendor_share(order))}."
    )


def _sign_up(target: Target, narrator: Narrator) -> Caller:
    narrator.step("A new student signs in for the first time, and gets a profile")
    mailbox = f"student-{uuid4().hex[:8]}"
    claims = {"sub": str(uuid4()), "email": f"{mailbox}@north.example.edu"}
    provider = Caller(target.issuer, narrator, name="student", abroad=True)
    issued = provider.post("/sandbox/token", "token_type", body={"persona": "nobody", "claims": claims})
    student = Caller(target.api, narrator, name="student", token=issued["access_token"])
    campus = browse_campus(student)
    body = {"name": "Student", "campusId": campus["id"]}
    student.put("/api/users/me", "role", "campus.name", body=body)
    return student


def _verify_phone(target: Target, narrator: Narrator, student: Caller) -> None:
    narrator.step("The student verifies a phone number by a code sent as SMS")
    phone = f"+234803{uuid4().int % 10**7:07d}"
    student.post("/api/users/me/phone/code", "expiresAt", "attemptsLeft", body={"phone": phone})
    sms = Caller(target.sms, narrator, name="phone", abroad=True)
    messages = sms.get("/sandbox/messages", query={"to": phone[1:]}, quietly=True)["messages"]
    words = str(messages[-1]["text"]).split() if messages else []
    codes = [word for word in words if word.isdigit() and len(word) == _CODE_DIGITS]
    if not codes:
        raise DemoFailedError("The SMS gateway has no code for the student.")
    narrator.note("The sandbox's SMS gateway shows the code.")
    student.post("/api/users/me/phone/confirm", "phoneVerified", body={"code": codes[0]})


def _apply(narrator: Narrator, student: Caller) -> dict[str, Any]:
    narrator.step("The student uploads the student ID, which only staff can read")
    picture = io.BytesIO()
    Image.new("RGB", (640, 400), "#2a6f97").save(picture, "PNG")
    path = student.upload(
        "/api/vendors/applications/student-id", "path", content=picture.getvalue(), file_name="id.png"
    )["path"]
    narrator.step("The student chooses a bank account, and a free address for the store")
    account = {"bankCode": _BANK_CODE, "accountNumber": f"{2 * 10**9 + uuid4().int % 10**9}"}
    resolved = student.post("/api/payments/bank/resolve", "accountName", body=account)
    me = student.put("/api/users/me", "name", body={"name": resolved["accountName"].title()})
    slug = "demo-" + "".join("abcdefgh"[int(digit, 16) % 8] for digit in uuid4().hex[:12])
    student.get(f"/api/vendors/slug/{slug}/available", "slug", "available")
    narrator.step("The student applies")
    categories = student.get("/api/products/categories", quietly=True)
    body = {
        "storeName": f"{me['name'].split()[0]} Corner",
        "slug": slug,
        "campusId": me["campusId"],
        "categoryIds": [categories[0]["id"]],
        "description": "Lamps and chargers for your room. Orders before noon go out the same day.",
        "phone": me["phone"],
        "studentIdPath": path,
        "bankAccount": account,
    }
    application: dict[str, Any] = student.post(
        "/api/vendors/applications", "status", "slug", body=body, expected=201
    )
    return application


def _approve(target: Target, narrator: Narrator, application_id: str) -> None:
    narrator.step("An officer reviews the application and approves the store")
    officer = _sign_in(target, narrator, "moderator")
    path = f"/api/vendor-applications/{application_id}"
    officer.post(f"{path}/start-review", "application.status", "phoneVerified", "accountNameMatches")
    officer.post(f"{path}/document", "expiresAt")
    officer.post(f"{path}/approve", "application.status", "application.vendorId")


def _publish(
    narrator: Narrator, student: Caller, application: dict[str, Any], *, pause: Callable[[float], None]
) -> dict[str, Any]:
    narrator.step("The new vendor publishes the first listing, which is screened automatically")
    body = {
        "title": "Reading lamp with a clamp",
        "description": "Bright, with three levels. Used for one semester and in good condition.",
        "priceMinor": 450_000,
        "categoryId": application["categoryIds"][0],
        "condition": "good",
        "quantity": 1,
    }
    made = student.post("/api/products", "title", "status", body=body, expected=201)

    def published() -> Any:
        found = student.get(f"/api/products/{made['id']}", quietly=True)
        return found if found["status"] == "published" else None

    product: dict[str, Any] = until(
        published, seconds=_PUBLISHED_WITHIN_SECONDS, what="The listing's publication", pause=pause
    )
    return product


def _sign_in(target: Target, narrator: Narrator, persona: str) -> Caller:
    provider = Caller(target.issuer, narrator, name=persona, abroad=True)
    issued = provider.post("/sandbox/token", "token_type", body={"persona": persona})
    return Caller(target.api, narrator, name=persona, token=issued["access_token"])
