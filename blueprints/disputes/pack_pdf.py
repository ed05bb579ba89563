"""The summary of an evidence pack as a PDF document, for a bank."""

from datetime import UTC, datetime

from blueprints.http.pdf import Paper
from marketplace.disputes import texts
from marketplace.disputes.evidence.pack import PackContent
from marketplace.kernel.money import format_naira


def render_summary(content: PackContent, *, generated_at: datetime) -> bytes:
    """Render the summary: case, order, chargeback, statements of the sides, trail, messages and files.

    :return: the bytes of the PDF document
    """
    dispute, order = content.dispute, content.order
    paper = Paper(dispute.number, texts.PACK_GENERATED.format(at=_time(generated_at)))
    paper.set_creation_date(generated_at)
    paper.set_title(texts.PACK_TITLE.format(number=dispute.number))
    paper.set_lang("en")
    paper.add_page()
    paper.write_line(texts.PACK_TITLE.format(number=dispute.number), size=16, style="B", height=9)
    _section(
        paper,
        texts.PACK_ORDER,
        [
            texts.PACK_ORDER_LINE.format(
                number=order.number, placed=_time(order.created_at), total=format_naira(order.total_minor)
            ),
            *(
                texts.PACK_ITEM_LINE.format(
                    quantity=item.quantity, title=item.title, price=format_naira(item.unit_price_minor)
                )
                for item in content.facts.listings
            ),
        ],
    )
    _section(
        paper,
        texts.PACK_CHARGEBACK,
        [
            texts.PACK_CHARGEBACK_LINE.format(
                id=row.gateway_dispute_id,
                category=row.category or "-",
                due=_time(row.due_at) if row.due_at else "-",
            )
            for row in content.chargebacks
        ],
    )
    _section(
        paper,
        texts.PACK_STATEMENTS,
        [
            texts.PACK_COMPLAINT.format(
                side=dispute.opened_by, reason=dispute.reason, text=dispute.description
            ),
            *([texts.PACK_RESPONSE.format(text=dispute.response)] if dispute.response else []),
            *([texts.PACK_FINDING.format(text=dispute.finding)] if dispute.finding else []),
        ],
    )
    _section(
        paper,
        texts.PACK_TRAIL,
        [
            texts.PACK_TRAIL_LINE.format(at=_time(event.at), trigger=event.trigger, actor=event.actor)
            for event in content.facts.trail
        ],
    )
    _section(
        paper,
        texts.PACK_DELIVERIES,
        [
            texts.PACK_DELIVERY_LINE.format(at=_time(row.created_at), channel=row.channel, status=row.status)
            for row in content.facts.pin_deliveries
        ],
    )
    _section(
        paper,
        texts.PACK_MESSAGES,
        [
            texts.PACK_MESSAGE_LINE.format(at=_time(row.created_at), side=row.sender, text=row.body)
            for row in content.facts.messages
        ],
    )
    _section(
        paper,
        texts.PACK_FILES,
        [
            texts.PACK_FILE_LINE.format(
                name=packed.name or texts.PACK_FILE_LEFT_OUT,
                sha256=packed.evidence.sha256,
                note=packed.evidence.note or "",
            )
            for packed in content.files
        ],
    )
    return bytes(paper.output())


def _section(paper: Paper, heading: str, lines: list[str]) -> None:
    if lines:
        paper.ln(3)
        paper.write_line(heading, size=11, style="B", height=7)
        for line in lines:
            paper.write_paragraph(line)


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
