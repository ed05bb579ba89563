"""Files that attack image decoders."""

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

from PIL import Image

from tests.support.sample_images import chunk, encode_image, gradient, photo, png_of

_SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
_FIVE_MEGABYTES = 5 * 1024 * 1024


def _bomb_in_a_header() -> bytes:
    """A header of 2.5 thousand million pixels, without pixel data."""
    return png_of(50_000, 50_000)


def _bomb_in_full() -> bytes:
    """A picture with complete pixel data: 100 MB compressed to 0.1 MB."""
    return png_of(11_000, 9_000, data=bytes(11_001 * 9_000))


def _strip() -> bytes:
    return png_of(65_000, 1, data=bytes(65_001))


def _upright_strip() -> bytes:
    return encode_image(Image.new("RGB", (1, 65_000)), "JPEG")


def _frame_header_that_lies() -> bytes:
    content = bytearray(photo(64, 64))
    start = content.index(b"\xff\xc0") + 5
    content[start : start + 4] = struct.pack(">HH", 65_500, 65_500)
    return bytes(content)


def _large_canvas_of_webp() -> bytes:
    head = b"VP8X" + struct.pack("<I", 10) + b"\x00" * 4 + (16_000).to_bytes(3, "little") * 2
    return b"RIFF" + struct.pack("<I", len(head) + 4) + b"WEBP" + head


def _large_screen_of_gif() -> bytes:
    content = bytearray(encode_image(gradient(10, 10), "GIF"))
    content[6:10] = struct.pack("<HH", 65_535, 65_535)
    return bytes(content)


def _frame_beyond_the_screen_of_gif() -> bytes:
    content = bytearray(encode_image(gradient(10, 10), "GIF"))
    start = content.index(b",\x00\x00\x00\x00\x0a\x00\x0a\x00") + 5
    content[start : start + 4] = struct.pack("<HH", 65_535, 65_535)
    return bytes(content)


def _profile_bomb() -> bytes:
    """A compressed colour profile of 300 MB."""
    packed = b"name\x00\x00" + zlib.compress(bytes(300_000_000), 9)
    return png_of(8, 8, data=bytes(72), more=chunk(b"iCCP", packed))


def _text_bombs() -> bytes:
    text = chunk(b"zTXt", b"a\x00\x00" + zlib.compress(bytes(60_000), 9))
    return png_of(8, 8, data=bytes(72), more=text * 20_000)


def _many_chunks() -> bytes:
    return png_of(8, 8, data=bytes(72), more=chunk(b"abCd", b"") * (_FIVE_MEGABYTES // 12 - 20))


def _many_scans() -> bytes:
    """A progressive JPEG that repeats the last scan of the whole picture fifty thousand times."""
    content = photo(4000, 4000, progressive=True, quality=5)
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2][:80] * 50_000 + b"\xff\xd9"


def _scans_up_to_the_bound() -> bytes:
    content = photo(4900, 4900, progressive=True, quality=5)
    last = content.rindex(b"\xff\xda")
    return content[:-2] + content[last:-2] * (50 - content.count(b"\xff\xda")) + b"\xff\xd9"


def _long_comment_of_gif() -> bytes:
    content = encode_image(gradient(10, 10), "GIF")
    start = content.index(b",\x00\x00\x00\x00\x0a\x00\x0a\x00")
    comment = b"!\xfe" + (b"\xff" + bytes(255)) * 20_000 + b"\x00"
    return content[:start] + comment + content[start:]


def _zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("picture.jpg", bytes(10_000_000))
    return out.getvalue()


def _first_half(kind: str) -> Callable[[], bytes]:
    def make() -> bytes:
        content = encode_image(gradient(900, 700), kind)
        return content[: len(content) // 2]

    return make


def _large_png_damaged_late() -> bytes:
    content = bytearray(encode_image(gradient(6000, 4000), "PNG"))
    content[len(content) * 9 // 10] ^= 0xFF
    return bytes(content)


def _png_of_rows(width: int, height: int, rows: int, *, depth: int = 8, colours: int = 0) -> bytes:
    """A valid PNG, except that the well-formed compressed data ends after some of the rows."""
    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    row = 1 + width * depth * {0: 1, 2: 3, 6: 4}[colours] // 8
    return _png(header, bytes(row * rows))


def _interlaced_png_without_its_last_pass() -> bytes:
    """A PNG without the seventh pass, which has every second row and half of all bytes."""
    passes = ((8, 8), (8, 8), (4, 8), (4, 4), (2, 4), (2, 2))  # one pixel of n in both directions
    size = 2400
    pixels = b"".join(bytes((1 + size // across * 8) * (size // down)) for across, down in passes)
    return _png(struct.pack(">IIBBBBB", size, size, 16, 6, 0, 0, 1), pixels)


def _png_with_bytes_behind_its_rows() -> bytes:
    """A PNG with 100 of 600 rows, followed by bytes that are no compressed pixels."""
    packed = zlib.compress(bytes(601 * 100), 9) + bytes(4_000)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 600, 600, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def _png_whose_frame_is_smaller() -> bytes:
    """An animation with only 10 of 600 rows in the first frame, which is the picture."""
    frame = struct.pack(">IIIIIHHBB", 0, 600, 10, 0, 0, 1, 1, 0, 0)
    more = chunk(b"acTL", struct.pack(">II", 2, 0)) + chunk(b"fcTL", frame)
    return png_of(600, 600, data=bytes(601 * 600), more=more)


def _png(header: bytes, pixels: bytes) -> bytes:
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(pixels, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def _gif_of_rows(size: int, rows: int) -> bytes:
    """A GIF with well-formed pixel data that ends after some of the rows. All codes have nine bits."""
    bits = "".join(f"{code:09b}"[::-1] for _ in range(rows) for code in (256, *[7] * size))
    bits += f"{257:09b}"[::-1]
    packed = bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))
    blocks = b"".join(
        bytes([len(packed[at : at + 255])]) + packed[at : at + 255] for at in range(0, len(packed), 255)
    )
    screen = b"GIF89a" + struct.pack("<HHBBB", size, size, 0xF7, 0, 0) + bytes(range(256)) * 3
    return screen + b"," + struct.pack("<HHHHB", 0, 0, size, size, 0) + b"\x08" + blocks + b"\x00;"


def _webp_of_half_its_data(**options: object) -> bytes:
    """A WebP with half of the pixel data. The lengths match, so only pixels are missing."""
    content = encode_image(gradient(900, 700), "WEBP", **options)
    half = content[20 : 20 + (len(content) - 20) // 4 * 2]
    inner = content[12:16] + struct.pack("<I", len(half)) + half
    return b"RIFF" + struct.pack("<I", 4 + len(inner)) + b"WEBP" + inner


def _large_jpeg_cut_off_late() -> bytes:
    content = photo(8000, 6000, quality=40)
    return content[: len(content) * 49 // 50]


ATTACKS: dict[str, tuple[Callable[[], bytes], int]] = {
    "PNG of 50,000 by 50,000": (_bomb_in_a_header, 422),
    "PNG of 99 million pixels": (_bomb_in_full, 422),
    "PNG of 65,000 by 1": (_strip, 422),
    "JPEG of 1 by 65,000": (_upright_strip, 422),
    "JPEG that claims 65,500 by 65,500": (_frame_header_that_lies, 422),
    "WebP that claims 16,001 by 16,001": (_large_canvas_of_webp, 422),
    "GIF that claims 65,535 by 65,535": (_large_screen_of_gif, 422),
    "GIF whose frame is larger than itself": (_frame_beyond_the_screen_of_gif, 422),
    "PNG with a profile of 300 MB": (_profile_bomb, 422),
    "PNG with 20,000 packed texts": (_text_bombs, 422),
    "PNG with 400,000 chunks": (_many_chunks, 422),
    "JPEG with 50,000 scans": (_many_scans, 422),
    "PNG of 24 million pixels, damaged at its end": (_large_png_damaged_late, 422),
    "JPEG of 48 million pixels, cut off at its end": (_large_jpeg_cut_off_late, 422),
    "half a JPEG": (_first_half("JPEG"), 422),
    "half a PNG": (_first_half("PNG"), 422),
    "half a WebP": (_first_half("WEBP"), 422),
    "half a GIF": (_first_half("GIF"), 422),
    "PNG with half of its pixels": (lambda: png_of(1000, 1000, data=bytes(500_000)), 422),
    "PNG of 93 bytes that claims 23.5 million pixels": (lambda: _png_of_rows(4800, 4900, 3), 422),
    "PNG with 100 of 600 rows": (lambda: _png_of_rows(600, 600, 100), 422),
    "PNG with all but one of 600 rows": (lambda: _png_of_rows(600, 600, 599), 422),
    "PNG of 16 bits with half of its rows": (
        lambda: _png_of_rows(4800, 4900, 2450, depth=16, colours=6),
        422,
    ),
    "PNG of 23.5 million pixels without its last row": (
        lambda: _png_of_rows(4800, 4900, 4899, colours=2),
        422,
    ),
    "interlaced PNG without its last pass": (_interlaced_png_without_its_last_pass, 422),
    "PNG with 100 of 600 rows and other bytes": (_png_with_bytes_behind_its_rows, 422),
    "PNG whose first frame is smaller": (_png_whose_frame_is_smaller, 422),
    "GIF with 100 of 250 rows": (lambda: _gif_of_rows(250, 100), 422),
    "GIF with all but one of 250 rows": (lambda: _gif_of_rows(250, 249), 422),
    "WebP with half of its data": (_webp_of_half_its_data, 422),
    "WebP without loss with half of its data": (lambda: _webp_of_half_its_data(lossless=True), 422),
    "PNG's signature alone": (lambda: b"\x89PNG\r\n\x1a\n", 422),
    "JPEG's signature alone": (lambda: b"\xff\xd8\xff\xe0", 422),
    "nothing": (lambda: b"", 422),
    "SVG": (lambda: _SVG, 415),
    "HTML": (lambda: b"<!doctype html><script>alert(1)</script>", 415),
    "PDF": (lambda: b"%PDF-1.7\n1 0 obj\n", 415),
    "ZIP": (_zip, 415),
    "BMP": (lambda: encode_image(gradient(10, 10), "BMP"), 415),
    "TIFF": (lambda: encode_image(gradient(10, 10), "TIFF"), 415),
    "AVIF": (lambda: encode_image(gradient(10, 10), "AVIF"), 415),
    "EPS": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n", 415),
}
"""Each with the status that it is refused with."""
BURDENS: dict[str, Callable[[], bytes]] = {
    "JPEG with as many scans as are taken": _scans_up_to_the_bound,
    "GIF with a comment of 5 MB": _long_comment_of_gif,
}
"""Pictures, if odd ones: whatever becomes of them, it takes no longer."""
