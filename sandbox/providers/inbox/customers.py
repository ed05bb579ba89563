"""Messages that customers write to the application, and their files as the Cloud API serves them."""

import hashlib
import time
from typing import Any
from uuid import uuid4

import urllib3
from flask import Blueprint, Response, jsonify, request

from sandbox.providers import fields
from sandbox.providers.inbox.answers import Answer, failure, planned_failure, token_failure
from sandbox.providers.inbox.context import current_inbox

_NUMBER_LENGTH = 15
_MAX_FILE_BYTES = 32 * 1024 * 1024
_KINDS = ("image", "document", "audio", "video", "sticker")

media = Blueprint("media", __name__, url_prefix="/cloud")
customers = Blueprint("customers", __name__, url_prefix="/sandbox/customers")


@media.get("/<version>/<media_id>")
def describe_media(version: str, media_id: str) -> Answer:
    """Describe the file of a message, with a URL that serves the content."""
    inbox = current_inbox()
    refusal = token_failure(inbox) or planned_failure(inbox, inbox.take_outcome("media"))
    if refusal is not None:
        return refusal
    found = inbox.find_media(media_id)
    if found is None:
        return failure(400, "Unsupported get request. Object does not exist", 100)
    return jsonify(
        {
            "messaging_product": "whatsapp",
            "url": f"{inbox.url}/cloud/{version}/{media_id}/content",
            "mime_type": found.content_type,
            "sha256": hashlib.sha256(found.content).hexdigest(),
            "file_size": len(found.content),
            "id": media_id,
        }
    )


@media.get("/<version>/<media_id>/content")
def serve_media(version: str, media_id: str) -> Answer:
    """Serve the content of a file to a client with the access token."""
    inbox = current_inbox()
    refusal = token_failure(inbox)
    if refusal is not None:
        return refusal
    found = inbox.find_media(media_id)
    if found is None:
        return failure(404, "The file does not exist")
    return Response(found.content, content_type=found.content_type)


@customers.post("/<number>/messages")
def write_message(number: str) -> Answer:
    """Write to the application as a customer, in JSON or as a form with a file.

    ``text`` is the message or the caption of the file, ``name`` the display name, ``kind`` the kind of the file.
    """
    request.max_content_length = _MAX_FILE_BYTES
    inbox = current_inbox()
    if not number.isdecimal() or len(number) > _NUMBER_LENGTH:
        raise fields.InvalidFieldError("number", "The number must be digits in international format.")
    body: dict[str, Any] = dict(fields.json_object(request) if request.is_json else request.form)
    written = fields.optional_text(body, "text", maximum=4096) or ""
    message: dict[str, Any] = {
        "from": number,
        "id": f"wamid.{uuid4().hex}",
        "timestamp": str(int(time.time())),
    }
    file = request.files.get("file")
    if file is None:
        message |= {"type": "text", "text": {"body": written}}
    else:
        kind = fields.choice({"kind": "image", **body}, "kind", allowed=_KINDS)
        content = file.read()
        media_id = inbox.keep_media(content, file.mimetype)
        caption = {"caption": written} if written else {}
        message |= {"type": kind, kind: {"id": media_id, "mime_type": file.mimetype, **caption}}
    inbox.note_customer(number)
    contact = {"profile": {"name": str(body.get("name") or "Customer")}, "wa_id": number}
    try:
        status = inbox.post_webhook({"contacts": [contact], "messages": [message]})
    except urllib3.exceptions.HTTPError as error:
        return failure(502, f"The application did not answer: {type(error).__name__}")
    return jsonify({"id": message["id"], "applicationStatus": status}), 201


@customers.post("/mails/<message_id>/reply")
def reply_to_mail(message_id: str) -> Answer:
    """Reply to an e-mail of the inbox as its recipient, with the quoted mail below."""
    inbox = current_inbox()
    body = fields.json_object(request)
    words = fields.text(body, "text", maximum=100_000)
    mails = [mail for mail in inbox.list_messages(channel="email") if mail["id"] == message_id]
    if not mails:
        return failure(404, "The inbox has no such e-mail")
    [mail] = mails
    content = mail["content"]
    if not content["replyTo"]:
        return failure(409, "The e-mail names no address for replies")
    quoted = "\n".join(f"> {line}" for line in content["text"].splitlines())
    reply = {
        "from": str(mail["to"]),
        "to": content["replyTo"],
        "subject": f"Re: {content['subject']}",
        "text": f"{words}\n\nOn Monday, Campus Marketplace wrote:\n{quoted}",
        "messageId": f"<{uuid4()}@mail.sandbox>",
        "inReplyTo": content["messageId"],
    }
    try:
        status, answer = inbox.post_reply(reply)
    except urllib3.exceptions.HTTPError as error:
        return failure(502, f"The application did not answer: {type(error).__name__}")
    return Response(answer, status=status, content_type="application/json")
