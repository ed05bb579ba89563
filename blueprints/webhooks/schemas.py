"""Schemas of webhooks."""

import marshmallow
from marshmallow import fields

from blueprints.http.fields import Schema


class Received(Schema):
    """A webhook was stored."""

    received = fields.Boolean(required=True)


class Anything(Schema):
    """Whatever stands in the address that a provider was given: what is signed is the body."""

    class Meta:
        unknown = marshmallow.EXCLUDE


class Handshake(Schema):
    """What the messaging provider asks with; a parameter more or less is no reason to complain."""

    class Meta:
        unknown = marshmallow.EXCLUDE

    mode = fields.String(data_key="hub.mode", load_default="")
    verify_token = fields.String(data_key="hub.verify_token", load_default="")
    challenge = fields.String(data_key="hub.challenge", load_default="")
