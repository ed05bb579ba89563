"""What is taken for a picture, and within which bounds; nothing is decoded here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_SIDE_PIXELS = 12_000  # pixels
MAX_ASPECT_RATIO = 20  # of the longer side to the shorter one
HEADER_BYTES = 30  # bytes that tell the format, and a WebP's size


class UnacceptablePictureError(Exception):
    """The file is no picture that can be drawn; the message says why, for whoever sent it."""


@dataclass(frozen=True)
class PictureFormat:
    """A format. ``max_pixels`` is what fits into the memory of the process that decodes.

    ``signature`` matches a file's first bytes. JPEG is decoded at a fraction of its size, unless it is progressive;
    WebP is held four times over.
    """

    name: str
    content_type: str
    suffix: str
    max_pixels: int
    signature: bytes


JPEG = PictureFormat("JPEG", "image/jpeg", "jpg", 50_000_000, rb"\xff\xd8\xff")
PNG = PictureFormat("PNG", "image/png", "png", 24_000_000, rb"\x89PNG\r\n\x1a\n")
WEBP = PictureFormat("WebP", "image/webp", "webp", 12_500_000, rb"(?s)RIFF.{4}WEBP")
GIF = PictureFormat("GIF", "image/gif", "gif", 24_000_000, rb"GIF8[79]a")
FORMATS = {picture_format.name: picture_format for picture_format in (JPEG, PNG, WEBP, GIF)}
MAX_PROGRESSIVE_JPEG_PIXELS = 25_000_000  # a progressive JPEG's coefficients are all held at once


@dataclass(frozen=True)
class Rendition:
    """A picture drawn anew. ``name`` is the longest side that was asked for, or the original format's suffix."""

    name: str
    content_type: str
    width: int
    height: int
    content: bytes


@dataclass(frozen=True)
class Picture:
    """What became of a file: its size in pixels, upright, and its renditions, the smallest first."""

    format: PictureFormat
    width: int
    height: int
    renditions: Sequence[Rendition]


def detect_format(head: bytes) -> PictureFormat | None:
    """Tell a file's format by its first bytes.

    :param head: at least ``HEADER_BYTES`` of them, or all that there are
    :return: none for what is no picture, or one of another format
    """
    return next((kind for kind in FORMATS.values() if re.match(kind.signature, head)), None)


def read_webp_size(head: bytes) -> tuple[int, int] | None:
    """Read a WebP's size off its first bytes: its decoder makes room for it at once.

    :return: width and height, or none if the bytes tell none
    """
    if len(head) < HEADER_BYTES:
        return None
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return None


def ensure_acceptable_size(width: int, height: int, *, max_pixels: int) -> None:
    """Refuse a size that no picture of a product has, before anything is decoded.

    :param width: as the file says, in pixels
    :param height: as the file says, in pixels
    :param max_pixels: how many there may be in all
    :raises UnacceptablePictureError: there are none, too many, or they make a strip
    """
    if width < 1 or height < 1:
        raise UnacceptablePictureError("The picture has no pixels.")
    if max(width, height) > MAX_SIDE_PIXELS:
        raise UnacceptablePictureError(
            f"The picture has {width} by {height} pixels; a side may have {MAX_SIDE_PIXELS:,} at most."
        )
    if max(width, height) > MAX_ASPECT_RATIO * min(width, height):
        raise UnacceptablePictureError(
            f"The picture has {width} by {height} pixels; the longer side may be"
            f" {MAX_ASPECT_RATIO} times the other at most."
        )
    if width * height > max_pixels:
        raise UnacceptablePictureError(
            f"The picture has {width * height / 1_000_000:.1f} million pixels;"
            f" {max_pixels / 1_000_000:g} million are taken of this kind."
        )
