"""Unsubscribe from marketing e-mails with one click (RFC 8058), by signed tokens without an expiry."""

from uuid import UUID

from itsdangerous import BadSignature, URLSafeSerializer
from sqlalchemy.orm import Session

from marketplace.identity.models import Profile
from marketplace.identity.operations import lock_profile
from marketplace.identity.preferences import DEFAULTS, merge_preferences
from marketplace.kernel.errors import ValidationError
from marketplace.notifications import texts

_SALT = "unsubscribe"
PATH = "/api/notifications/unsubscribe"


def make_unsubscribe_url(user_id: UUID, preference: str, *, key: str, base_url: str) -> str:
    """Return the address that turns off a person's e-mails of a kind of preferences.

    :param key: the key that signs the token
    :param base_url: the address of the API
    """
    token = URLSafeSerializer(key, salt=_SALT).dumps([str(user_id), preference])
    return f"{base_url}{PATH}?token={token if isinstance(token, str) else token.decode()}"


def unsubscribe(session: Session, *, token: str, key: str) -> str:
    """Turn off a person's e-mails of a kind of preferences. A second call changes nothing.

    :return: the kind of preferences
    :raises ValidationError: the token is invalid
    """
    try:
        user_id, preference = URLSafeSerializer(key, salt=_SALT).loads(token)
    except (BadSignature, ValueError):
        raise ValidationError.of("token", texts.INVALID_UNSUBSCRIBE_TOKEN) from None
    profile_id = UUID(user_id)
    profile = session.get(Profile, profile_id)
    if profile is None or preference not in DEFAULTS:
        raise ValidationError.of("token", texts.INVALID_UNSUBSCRIBE_TOKEN)
    lock_profile(session, user_id=profile_id)
    session.refresh(profile)
    changed = merge_preferences(profile.notification_preferences, {preference: {"email": False}})
    if changed != profile.notification_preferences:
        profile.notification_preferences = changed
        profile.revision += 1
    return str(preference)
