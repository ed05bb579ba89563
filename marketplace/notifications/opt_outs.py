"""Opt-outs of template messages: a person sends STOP to the messaging provider's number, or START to return."""

import re
from datetime import datetime

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from marketplace.notifications.models import MessageOptOut

STOP_WORDS = frozenset({"stop", "stop all", "stopall", "unsubscribe", "cancel", "end", "quit", "opt out"})
START_WORDS = frozenset({"start", "unstop", "subscribe", "resume"})
_OTHER_CHARACTERS = re.compile(r"[^a-z]+")


def apply_opt_words(session: Session, *, phone: str, text: str, now: datetime) -> bool:
    """Stop or resume template messages to a number if the message is one of the words. Others change nothing.

    :param phone: in the format of profiles
    :return: whether the message is one of the words
    """
    word = _OTHER_CHARACTERS.sub(" ", text.casefold()).strip()
    if word in STOP_WORDS:
        session.execute(
            insert(MessageOptOut).values(phone_index=phone, created_at=now).on_conflict_do_nothing()
        )
    elif word in START_WORDS:
        session.execute(delete(MessageOptOut).where(MessageOptOut.phone_index == phone))
    return word in STOP_WORDS or word in START_WORDS
