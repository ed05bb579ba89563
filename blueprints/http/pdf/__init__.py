"""PDF documents for people: A4 pages with fonts for all Latin letters and the naira sign."""

from pathlib import Path

from fpdf import FPDF, XPos, YPos
from fpdf.fonts import TTFFont

from blueprints.http import texts

# See LICENSE_DEJAVU in the folder of the fonts.
_FONTS = {"": "DejaVuSans.ttf", "B": "DejaVuSans-Bold.ttf"}
FONT_FAMILY = "DejaVu"
MARGIN, LINE_HEIGHT, _FOOTER_HEIGHT = 10, 5.5, 15
_ELLIPSIS = "\u2026"
# Replaced by the number of pages at the end. No font has these code points, so no name can contain the placeholder.
_PAGE_COUNT_PLACEHOLDER = "\ufdd0" * 3


class Paper(FPDF):
    """A4 pages with a footer of a name, a label and the page number."""

    def __init__(self, name: str, label: str) -> None:
        super().__init__(format="A4")
        for style, file in _FONTS.items():
            self.add_font(FONT_FAMILY, style, Path(__file__).parent / "fonts" / file)
        fonts = [font for font in self.fonts.values() if isinstance(font, TTFFont)]
        self._supported_code_points = frozenset[int].intersection(*(frozenset(font.cmap) for font in fonts))
        self._name, self._label = name, label
        self.alias_nb_pages(_PAGE_COUNT_PLACEHOLDER)
        self.set_margins(MARGIN, MARGIN)
        self.set_auto_page_break(auto=True, margin=_FOOTER_HEIGHT)

    def footer(self) -> None:
        """Write the footer of a page. The library calls this method."""
        self.set_y(-_FOOTER_HEIGHT + 3)
        self.set_font(FONT_FAMILY, size=7)
        width = self.epw / 2
        name = self.truncate_to_width(self._name, width - self.get_string_width(self._label))
        self.cell(width, 4, name + self._label)
        page = texts.PDF_PAGE.format(page=self.page_no(), page_count=_PAGE_COUNT_PLACEHOLDER)
        self.cell(width, 4, page, align="R")

    def write_line(self, text: str, *, size: float = 9, style: str = "", height: float = LINE_HEIGHT) -> None:
        """Write a line of text, truncated to the width of the page."""
        self.set_font(FONT_FAMILY, style, size)
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

    def wrap_text(self, text: str, width: float) -> list[str]:
        """Wrap a text at word boundaries to a width in mm, in the current font, and return the lines."""
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

    def write_paragraph(self, text: str, *, size: float = 9, style: str = "") -> None:
        """Write a text on as many lines as needed. Line breaks of the text are kept."""
        self.set_font(FONT_FAMILY, style, size)
        for part in text.splitlines() or [""]:
            for line in self.wrap_text(part, self.epw):
                self.write_line(line, size=size, style=style)
