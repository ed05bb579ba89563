"""A vendor's statement as a PDF file: what JSON and CSV have of it, laid out to be read and printed."""

from datetime import UTC, datetime
from pathlib import Path

from fpdf import FPDF, XPos, YPos
from fpdf.fonts import TTFFont

from marketplace.kernel.money import format_naira
from marketplace.payouts.payees.statements import VendorStatement, VendorStatementEntry

# Letters of all languages that are written in Latin, the naira sign among them; see LICENSE_DEJAVU beside them.
_FONTS = {"": "DejaVuSans.ttf", "B": "DejaVuSans-Bold.ttf"}
_FONT_FAMILY = "DejaVu"
# Heading, width in mm, alignment. Together they are what A4 has between its margins.
_TABLE_COLUMNS = (
    ("Date (UTC)", 31, "L"),
    ("What", 61, "L"),
    ("Order", 20, "L"),
    ("In", 26, "R"),
    ("Out", 26, "R"),
    ("Balance", 26, "R"),
)
_DESCRIPTION_COLUMN = 1
_TABLE_FONT_SIZE = 7.5
_MARGIN, _LINE_HEIGHT, _FOOTER_HEIGHT = 10, 5.5, 15
_ELLIPSIS = "\u2026"
# Stands for the number of pages until that is known. No font has a letter for it, so nobody's name can hold it.
_PAGE_COUNT_PLACEHOLDER = "\ufdd0" * 3


class _StatementPdf(FPDF):
    """A4 pages that say at the foot whose statement it is, and which page of how many."""

    def __init__(self, name: str, generated_at: str) -> None:
        super().__init__(format="A4")
        for style, file in _FONTS.items():
            self.add_font(_FONT_FAMILY, style, Path(__file__).parent / "fonts" / file)
        fonts = [font for font in self.fonts.values() if isinstance(font, TTFFont)]
        self._supported_code_points = frozenset[int].intersection(*(frozenset(font.cmap) for font in fonts))
        self._name, self._generated_label = name, f" · drawn up {generated_at} UTC"
        self.alias_nb_pages(_PAGE_COUNT_PLACEHOLDER)
        self.set_margins(_MARGIN, _MARGIN)
        self.set_auto_page_break(auto=True, margin=_FOOTER_HEIGHT)

    def footer(self) -> None:
        """Write a page's foot; the library calls it."""
        self.set_y(-_FOOTER_HEIGHT + 3)
        self.set_font(_FONT_FAMILY, size=7)
        width = self.epw / 2
        name = self.truncate_to_width(self._name, width - self.get_string_width(self._generated_label))
        self.cell(width, 4, name + self._generated_label)
        self.cell(width, 4, f"Page {self.page_no()} of {_PAGE_COUNT_PLACEHOLDER}", align="R")

    def write_line(
        self, text: str, *, size: float = 9, style: str = "", height: float = _LINE_HEIGHT
    ) -> None:
        """Write a line of text, cut to the width of the page."""
        self.set_font(_FONT_FAMILY, style, size)
        self.cell(
            self.epw, height, self.truncate_to_width(text, self.epw), new_x=XPos.LMARGIN, new_y=YPos.NEXT
        )

    def replace_missing_glyphs(self, text: str) -> str:
        """Put a mark in the place of what the fonts lack, such as pictures and other scripts."""
        return "".join(letter if ord(letter) in self._supported_code_points else "?" for letter in text)

    def truncate_to_width(self, text: str, width: float) -> str:
        """Cut a text to a width, in the font that is set."""
        text = self.replace_missing_glyphs(text)
        room = width - 2 * self.c_margin
        if self.get_string_width(text) <= room:
            return text
        while text and self.get_string_width(text + _ELLIPSIS) > room:
            text = text[:-1]
        return text.rstrip() + _ELLIPSIS

    def write_row(self, cells: list[str], *, style: str = "", fill: bool = False) -> None:
        """Write a row of the table, what stands under ``What`` on as many lines as it takes.

        A row that does not fit on the page any more begins another one, under the table's heading.
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
                # An amount is never cut: it would be another one.
                fitted = text if align == "R" else self.truncate_to_width(text, width)
                self.cell(width, _LINE_HEIGHT, fitted, align=align, border=border, fill=fill)
            self.ln(_LINE_HEIGHT)

    def write_heading(self) -> None:
        """Write the table's heading."""
        self.set_fill_color(225)
        self.write_row([heading for heading, _width, _align in _TABLE_COLUMNS], style="B", fill=True)
        self.set_fill_color(245)

    def _wrap_text(self, text: str, width: float) -> list[str]:
        """Break a text between its words so that each line fits, in the font that is set."""
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
    """Draw a statement.

    :param statement: what stands in it
    :param generated_at: when it is drawn up; the same statement of the same time is the same file
    :return: the PDF file
    """
    paper = _StatementPdf(statement.vendor.display_name, _format_time(generated_at))
    paper.set_creation_date(generated_at)
    paper.set_title("Statement of account")
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
    paper.write_line("Statement of account", size=16, style="B", height=9)
    paper.write_line(statement.vendor.display_name, size=12, style="B", height=7)
    if statement.vendor.owner_name:
        paper.write_line(statement.vendor.owner_name)
    if len(statement.paid_accounts) == 1:
        [account] = statement.paid_accounts
        bank = account.bank_name or account.bank_code
        paper.write_line(f"Paid to {bank}, {account.masked_number}, {account.account_name}")
    elif statement.paid_accounts:
        paper.write_line("Paid to several accounts")
    period = statement.period
    paper.write_line(f"From {_format_time(period.starts)} to before {_format_time(period.ends)} UTC")
    paper.write_line(f"Store {statement.vendor.id}", size=7)
    paper.ln(3)


def _write_totals(paper: _StatementPdf, statement: VendorStatement) -> None:
    for words, minor in (
        ("Balance at the beginning", statement.opening_balance_minor),
        ("Came in", statement.credited_minor),
        ("Went out", -statement.debited_minor),
        ("Balance at the end", statement.closing_balance_minor),
    ):
        paper.set_font(_FONT_FAMILY, "B" if words.startswith("Balance") else "", 9)
        paper.cell(60, _LINE_HEIGHT, words)
        paper.cell(45, _LINE_HEIGHT, format_naira(minor), align="R", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    if statement.closing_balance_minor < 0:
        paper.write_line(
            "What is below zero is owed to the marketplace, and taken from what comes in next.", size=8
        )
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
    """Write an amount without its currency, which the sums name."""
    return format_naira(minor).replace("NGN ", "")
