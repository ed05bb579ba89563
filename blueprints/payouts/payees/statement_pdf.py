"""Vendors' statements as PDF files for reading and printing, with the same content as JSON and CSV."""

from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF, XPos, YPos
from fpdf.fonts import TTFFont

from marketplace.kernel.money import format_naira
from marketplace.payouts import texts
from marketplace.payouts.payees.statements import VendorStatement, VendorStatementEntry

# Fonts with all Latin letters and the naira sign; see LICENSE_DEJAVU in the same folder.
_FONTS = {"": "DejaVuSans.ttf", "B": "DejaVuSans-Bold.ttf"}
_FONT_FAMILY = "DejaVu"
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
_MARGIN, _LINE_HEIGHT, _FOOTER_HEIGHT = 10, 5.5, 15
_ELLIPSIS = "\u2026"
# Replaced by the number of pages at the end. No font has these code points, so no name can contain the placeholder.
_PAGE_COUNT_PLACEHOLDER = "\ufdd0" * 3


class _StatementPdf(FPDF):
    """A4 pages with a footer of the store's name, the time of generation and the page number."""

    def __init__(self, name: str, generated_at: str) -> None:
        super().__init__(format="A4")
        for style, file in _FONTS.items():
            self.add_font(_FONT_FAMILY, style, Path(__file__).parent / "fonts" / file)
        fonts = [font for font in self.fonts.values() if isinstance(font, TTFFont)]
        self._supported_code_points = frozenset[int].intersection(*(frozenset(font.cmap) for font in fonts))
        self._name, self._generated_label = name, texts.STATEMENT_GENERATED.format(generated_at=generated_at)
        self.alias_nb_pages(_PAGE_COUNT_PLACEHOLDER)
        self.set_margins(_MARGIN, _MARGIN)
        self.set_auto_page_break(auto=True, margin=_FOOTER_HEIGHT)

    def footer(self) -> None:
        """Write the footer of a page. The library calls this method."""
        self.set_y(-_FOOTER_HEIGHT + 3)
        self.set_font(_FONT_FAMILY, size=7)
        width = self.epw / 2
        name = self.truncate_to_width(self._name, width - self.get_string_width(self._generated_label))
        self.cell(width, 4, name + self._generated_label)
        self.cell(
            width,
            4,
            texts.STATEMENT_PAGE.format(page=self.page_no(), page_count=_PAGE_COUNT_PLACEHOLDER),
            align="R",
        )

    def write_line(
        self, text: str, *, size: float = 9, style: str = "", height: float = _LINE_HEIGHT
    ) -> None:
        """Write a line of text, truncated to the width of the page."""
        self.set_font(_FONT_FAMILY, style, size)
        self.cell(
            self.epw, height, self.truncate_to_width(text, self.epw), new_x=XPos.LMARGIN, new_y=YPos.NEXT
        )

    def replace_missing_glyphs(self, text: str) -> str:
        """Replace characters missing in the fonts, such as emoji and other scripts, with a question mark."""
        return "".join(letter if ord(letter) in self._supported_code_points else "?" for letter in text)

    def truncate_to_width(self, text: str, width: float) -> str:
        """Truncate a text to a width in mm, in the current font."""
        text = self.replace_missing_glyphs(text)
        room = width - 2 * self.c_margin
        if self.get_string_width(text) <= room:
            return text
        while text and self.get_string_width(text + _ELLIPSIS) > room:
            text = text[:-1]
        return text.rstrip() + _ELLIPSIS

    def write_row(self, cells: list[str], *, style: str = "", fill: bool = False) -> None:
        """Write a row of the table, with the description wrapped to several lines if needed.

        A row that does not fit on the page starts a new page with the table's heading.
        """
        self.set_font(_FONT_FAMILY, style, _TABLE_FONT_SIZE)
        lines = self._wrap_text(cells[_DESCRIPTION_COLUMN], _TABLE_COLUMNS[_DESCRIPTION_COLUMN][1])
        if self.will_page_break(_LINE_HEIGHT * len(lines)):
            self.add_page()
            self.write_heading()
            self.set_font(_FONT_FAMILY, style, _TABLE_FONT_SIZE)
        for number, line in enumerate(lines, 1):
            shown = ["" for _ in cells] if number > 1 else list(cells)
            shown[_DESCRIPTION_COLUMN] = line
            border = "B" if number == len(lines) else ""
            for text, (_heading, width, align) in zip(shown, _TABLE_COLUMNS, strict=True):
                # A truncated amount would be a wrong amount.
                fitted = text if align == "R" else self.truncate_to_width(text, width)
                self.cell(width, _LINE_HEIGHT, fitted, align=align, border=border, fill=fill)
            self.ln(_LINE_HEIGHT)

    def write_heading(self) -> None:
        """Write the table's heading."""
        self.set_fill_color(225)
        self.write_row([heading for heading, _width, _align in _TABLE_COLUMNS], style="B", fill=True)
        self.set_fill_color(245)

    def _wrap_text(self, text: str, width: float) -> list[str]:
        """Wrap a text at word boundaries to a width in mm, in the current font."""
        text = self.replace_missing_glyphs(text)
        room = width - 2 * self.c_margin
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.get_string_width(longer) > room:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines


def render_pdf(statement: VendorStatement, *, generated_at: datetime) -> bytes:
    """Render a statement as a PDF file.

    :param generated_at: printed in the footer; equal arguments produce an identical file
    :return: the bytes of the PDF file
    """
    paper = _StatementPdf(statement.vendor.display_name, _format_time(generated_at))
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
        paper.set_font(_FONT_FAMILY, style, 9)
        paper.cell(60, _LINE_HEIGHT, label)
        paper.cell(45, _LINE_HEIGHT, format_naira(minor), align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
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
