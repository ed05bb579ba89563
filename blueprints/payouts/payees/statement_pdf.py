"""Vendors' statements as PDF files for reading and printing, with the same content as JSON and CSV."""

from datetime import UTC, datetime

from fpdf import XPos, YPos

from blueprints.http.pdf import FONT_FAMILY, LINE_HEIGHT, Paper
from marketplace.kernel.money import format_naira
from marketplace.payouts import texts
from marketplace.payouts.payees.statements import VendorStatement, VendorStatementEntry

# Heading, width in mm, alignment. The widths add up to the width of A4 without margins.
_TABLE_COLUMNS = (
    (texts.STATEMENT_COLUMN_DATE, 31, "L"),
    (texts.STATEMENT_COLUMN_DESCRIPTION, 61, "L"),
    (texts.STATEMENT_COLUMN_ORDER, 20, "L"),
    (texts.STATEMENT_COLUMN_CREDIT, 26, "R"),
    (texts.STATEMENT_COLUMN_DEBIT, 26, "R"),
    (texts.STATEMENT_COLUMN_BALANCE, 26, "R"),
)
_DESCRIPTION_COLUMN = 1
_TABLE_FONT_SIZE = 7.5


class _StatementPdf(Paper):
    """A statement with the table of its entries."""

    def write_row(self, cells: list[str], *, style: str = "", fill: bool = False) -> None:
        """Write a row of the table, with the description wrapped to several lines if needed.

        A row that does not fit on the page starts a new page with the table's heading.
        """
        self.set_font(FONT_FAMILY, style, _TABLE_FONT_SIZE)
        lines = self.wrap_text(cells[_DESCRIPTION_COLUMN], _TABLE_COLUMNS[_DESCRIPTION_COLUMN][1])
        if self.will_page_break(LINE_HEIGHT * len(lines)):
            self.add_page()
            self.write_heading()
            self.set_font(FONT_FAMILY, style, _TABLE_FONT_SIZE)
        for number, line in enumerate(lines, 1):
            shown = ["" for _ in cells] if number > 1 else list(cells)
            shown[_DESCRIPTION_COLUMN] = line
            border = "B" if number == len(lines) else ""
            for text, (_heading, width, align) in zip(shown, _TABLE_COLUMNS, strict=True):
                # A truncated amount would be a wrong amount.
                fitted = text if align == "R" else self.truncate_to_width(text, width)
                self.cell(width, LINE_HEIGHT, fitted, align=align, border=border, fill=fill)
            self.ln(LINE_HEIGHT)

    def write_heading(self) -> None:
        """Write the table's heading."""
        self.set_fill_color(225)
        self.write_row([heading for heading, _width, _align in _TABLE_COLUMNS], style="B", fill=True)
        self.set_fill_color(245)


def render_pdf(statement: VendorStatement, *, generated_at: datetime) -> bytes:
    """Render a statement as a PDF file.

    :param generated_at: printed in the footer; equal arguments produce an identical file
    :return: the bytes of the PDF file
    """
    paper = _StatementPdf(
        statement.vendor.display_name,
        texts.STATEMENT_GENERATED.format(generated_at=_format_time(generated_at)),
    )
    paper.set_creation_date(generated_at)
    paper.set_title(texts.STATEMENT_TITLE)
    paper.set_lang("en")
    paper.set_draw_color(200)
    paper.add_page()
    _write_header(paper, statement)
    _write_totals(paper, statement)
    paper.write_heading()
    for number, row in enumerate(statement.rows()):
        paper.write_row(_row_cells(row), style="" if row.direction else "B", fill=bool(number % 2))
    return bytes(paper.output())


def _write_header(paper: _StatementPdf, statement: VendorStatement) -> None:
    paper.write_line(texts.STATEMENT_TITLE, size=16, style="B", height=9)
    paper.write_line(statement.vendor.display_name, size=12, style="B", height=7)
    if statement.vendor.owner_name:
        paper.write_line(statement.vendor.owner_name)
    if len(statement.paid_accounts) == 1:
        [account] = statement.paid_accounts
        bank = account.bank_name or account.bank_code
        paper.write_line(
            texts.STATEMENT_PAID_ACCOUNT.format(
                bank=bank, account_number=account.masked_number, account_name=account.account_name
            )
        )
    elif statement.paid_accounts:
        paper.write_line(texts.STATEMENT_SEVERAL_PAID_ACCOUNTS)
    period = statement.period
    paper.write_line(
        texts.STATEMENT_PERIOD.format(starts=_format_time(period.starts), ends=_format_time(period.ends))
    )
    paper.write_line(texts.STATEMENT_STORE.format(store_id=statement.vendor.id), size=7)
    paper.ln(3)


def _write_totals(paper: _StatementPdf, statement: VendorStatement) -> None:
    for label, style, minor in (
        (texts.STATEMENT_OPENING_BALANCE, "B", statement.opening_balance_minor),
        (texts.STATEMENT_TOTAL_CREDITS, "", statement.credited_minor),
        (texts.STATEMENT_TOTAL_DEBITS, "", -statement.debited_minor),
        (texts.STATEMENT_CLOSING_BALANCE, "B", statement.closing_balance_minor),
    ):
        paper.set_font(FONT_FAMILY, style, 9)
        paper.cell(60, LINE_HEIGHT, label)
        paper.cell(45, LINE_HEIGHT, format_naira(minor), align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    if statement.closing_balance_minor < 0:
        paper.write_line(texts.STATEMENT_NEGATIVE_BALANCE, size=8)
    paper.ln(4)


def _row_cells(row: VendorStatementEntry) -> list[str]:
    amount = "" if row.amount_minor is None else _format_amount(row.amount_minor)
    return [
        _format_time(row.at),
        row.description,
        row.order_number or "",
        amount if row.direction == "credit" else "",
        amount if row.direction == "debit" else "",
        _format_amount(row.balance_minor),
    ]


def _format_time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M}"


def _format_amount(minor: int) -> str:
    """Format an amount without the currency, which the totals show."""
    return format_naira(minor).replace("NGN ", "")
