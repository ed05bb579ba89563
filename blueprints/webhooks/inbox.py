"""What all webhooks end in: a delivery is stored, its queue told, and the sender answered."""

from flask import Response

from blueprints.http.endpoint import Context
from blueprints.http.envelope import JSON_TYPE
from marketplace.infra import wakeups
from marketplace.kernel import queues
from marketplace.webhooks.inbox import receive_event


def store_delivery(ctx: Context, *, provider: str, body: bytes) -> Response:
    """Store a delivery that was checked, and acknowledge it.

    :param provider: gateway or messaging
    :param body: the raw bytes
    :return: 200; by then nothing loses the delivery
    """
    inbox_id = receive_event(ctx.session, provider=provider, body=body, now=ctx.now)
    wakeups.send_wakeup(queues.WEBHOOKS, wakeups.INBOX, inbox_id)
    return Response(b'{"received":true}', content_type=JSON_TYPE)
