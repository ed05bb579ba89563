"""Pictures for tests, drawn with known content."""

import io
import struct
import zlib
from typing import Any

from PIL import Image


def gradient(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Draw a picture without repeated areas, dark on the left and bright on the right."""
    across = Image.linear_gradient("L").rotate(90).resize((width, height))
    down = Image.linear_gradient("L").resize((width, height))
    drawn = Image.merge("RGB", (across, down, across))
    if mode.endswith("A"):
        drawn.putalpha(down)
    return drawn.convert(mode)


def encode_image(picture: Image.Image, kind: str = "JPEG", **options: Any) -> bytes:
    """Encode a picture."""
    out = io.BytesIO()
    # The fastest settings of each format, because the file size does not matter.
    fastest = {"PNG": {"compress_level": 1}, "WEBP": {"method": 0}}.get(kind.upper(), {})
    picture.save(out, kind, **fastest | options)
    return out.getvalue()


def photo(width: int = 2000, height: int = 1000, **options: Any) -> bytes:
    """Return a JPEG."""
    return encode_image(gradient(width, height), "JPEG", **options)


def decode_image(content: bytes) -> Image.Image:
    """Decode a picture."""
    picture = Image.open(io.BytesIO(content))
    picture.load()
    return picture


def png_of(width: int, height: int, *, data: bytes = b"", more: bytes = b"") -> bytes:
    """Write an 8-bit grey PNG with any size in the header and the given compressed pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    packed = zlib.compress(data, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def chunk(kind: bytes, data: bytes) -> bytes:
    """Encode a PNG chunk."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
