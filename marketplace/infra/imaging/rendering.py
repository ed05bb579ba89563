"""Re-encoding of pictures: decode within limits, turn upright, convert to sRGB, drop metadata, resize.

This code runs in a separate process (``decode_worker``), because a hostile file can make a decoder slow, exhaust the
memory or crash.
"""

import io
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import IO

from PIL import (
    GifImagePlugin,
    Image,
    ImageCms,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    WebPImagePlugin,
)

from marketplace.infra import texts
from marketplace.infra.imaging.formats import (
    GIF,
    HEADER_BYTES,
    JPEG,
    MAX_PROGRESSIVE_JPEG_PIXELS,
    PNG,
    WEBP,
    Picture,
    PictureFormat,
    Rendition,
    UnacceptablePictureError,
    ensure_acceptable_size,
    read_webp_size,
)

_SAMPLES_PER_PIXEL = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by PNG colour type
_MAX_DEFLATE_RATIO = 1_032  # the maximum expansion of deflate


class _CompletePng(PngImagePlugin.PngImageFile):
    """A PNG that must contain all rows. Pillow alone accepts a truncated picture.

    This class decompresses the pixels and passes the data to the decoder in uncompressed blocks, in a stream without
    an end marker. The decoder stops after the last row. If the decoder requests more data than exist, the file is
    incomplete. Counting the rows beforehand would double the time, because decompression is most of the work.
    """

    def load_prepare(self) -> None:
        """Start the decompression.

        :raises OSError: the first frame is smaller than the picture
        """
        if [tile.extents for tile in self.tile] != [(0, 0, *self.size)]:
            raise OSError("the first frame is smaller than the picture")
        super().load_prepare()
        self._unpacker = zlib.decompressobj()
        self._packed = b""
        self._start = b"\x78\x01"

    def load_read(self, read_bytes: int) -> bytes:
        """Return the next pixels as an uncompressed, non-final deflate block of at most 65,535 bytes.

        :param read_bytes: ignored, because the decoder accepts any number of bytes
        :return: empty after the last pixel
        """
        while not (pixels := self._unpacker.decompress(self._packed, 65_535)):
            self._packed = b"" if self._unpacker.eof else super().load_read(4 * 1024)
            if not self._packed:
                return b""
        self._packed = self._unpacker.unconsumed_tail
        start, self._start = self._start, b""
        return start + struct.pack("<BHH", 0, len(pixels), len(pixels) ^ 0xFFFF) + pixels


# Errors that decoders raise on invalid data.
_DECODER_ERRORS = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError, struct.error, zlib.error, Image.DecompressionBombError),
)
_DECODERS: dict[PictureFormat, Callable[[IO[bytes]], ImageFile.ImageFile]] = {
    JPEG: JpegImagePlugin.JpegImageFile,
    PNG: _CompletePng,
    WEBP: WebPImagePlugin.WebPImageFile,
    GIF: GifImagePlugin.GifImageFile,
}
# Each scan costs a pass over the whole picture, even a scan of few bytes. Cameras write about a dozen scans.
_MAX_SCANS = 50
# A PNG of 5 MB has some hundred chunks. Python code processes each chunk.
_MAX_CHUNKS = 20_000
_EXIF_ORIENTATION = 0x0112
_TRANSPOSE_BY_ORIENTATION = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SWAPS_SIDES = frozenset(_TRANSPOSE_BY_ORIENTATION[orientation] for orientation in (5, 6, 7, 8))
_STRIP_HEIGHT = 64  # rows of the result per conversion

# Text chunks of a PNG are not used, so small limits suffice.
PngImagePlugin.MAX_TEXT_CHUNK = 64 * 1024
PngImagePlugin.MAX_TEXT_MEMORY = 512 * 1024


def render(
    stream: IO[bytes],
    kind: PictureFormat,
    *,
    sizes: Sequence[int],
    on_decoded: Callable[[], object] | None = None,
) -> Picture:
    """Re-encode a picture as WebP in several sizes, and in the original format in the largest size.

    A picture is never enlarged, so a small picture has fewer renditions. Only the first frame of an animation is used.

    :param stream: the seekable file
    :param kind: the detected format
    :param sizes: longest sides in pixels, ascending
    :param on_decoded: called after decoding
    :raises UnacceptablePictureError: the picture is damaged or exceeds a limit
    """
    try:
        opened = _open_within_limits(stream, kind)
        size = opened.size
        profile = opened.info.get("icc_profile")
        opened.draft(opened.mode, (sizes[-1], sizes[-1]))
        opened.load()
        # Read the orientation after loading. Before, Pillow would decode a PNG to find metadata behind the pixels.
        rotation = _read_rotation(opened)
        if on_decoded is not None:
            on_decoded()
        picture = _shrink(opened, largest=sizes[-1])
        opened.close()
    except _DECODER_ERRORS as error:
        raise UnacceptablePictureError(texts.PICTURE_DAMAGED) from error
    picture = _convert_to_srgb(picture, profile)
    if rotation is not None:
        picture = picture.transpose(rotation)
    # Drop the remaining metadata.
    picture.info.clear()
    width, height = size[::-1] if rotation in _SWAPS_SIDES else size
    return Picture(kind, width, height, _encode_renditions(picture, kind, sizes))


def _open_within_limits(stream: IO[bytes], kind: PictureFormat) -> ImageFile.ImageFile:
    """Open a file in the detected format and check the size limits, without decoding."""
    content = stream.read()
    if kind is WEBP and (size := read_webp_size(content[:HEADER_BYTES])) is not None:
        ensure_acceptable_size(*size, max_pixels=kind.max_pixels)
    if kind is PNG:
        _ensure_intact_chunks(content)
    if kind is JPEG and content.count(b"\xff\xda") > _MAX_SCANS:
        raise UnacceptablePictureError(texts.PICTURE_TOO_MANY_SCANS.format(limit=_MAX_SCANS))
    opened = _DECODERS[kind](io.BytesIO(content))
    held_at_once = kind is JPEG and opened.info.get("progressive")
    ensure_acceptable_size(
        *opened.size, max_pixels=MAX_PROGRESSIVE_JPEG_PIXELS if held_at_once else kind.max_pixels
    )
    if kind is PNG and not _may_be_complete(content):
        raise UnacceptablePictureError(texts.PICTURE_DAMAGED)
    return opened


def _may_be_complete(content: bytes) -> bool:
    """Return whether a PNG is long enough to contain all pixels, even at the maximum compression."""
    width, height, depth, colours = struct.unpack_from(">IIBB", content, 16)
    needed: int = width * height * depth * _SAMPLES_PER_PIXEL.get(colours, 1) // 8
    return needed <= len(content) * _MAX_DEFLATE_RATIO


def _ensure_intact_chunks(content: bytes) -> None:
    """Check all chunks of a PNG, because the decoder accepts damaged pixels and a missing end.

    :raises UnacceptablePictureError: a chunk is damaged, or the file has too many chunks
    """
    view = memoryview(content)
    offset = 8
    for _ in range(_MAX_CHUNKS):
        length, name = struct.unpack_from(">I4s", content, offset)
        (expected_crc,) = struct.unpack_from(">I", content, offset + 8 + length)
        if zlib.crc32(view[offset + 4 : offset + 8 + length]) != expected_crc:
            raise UnacceptablePictureError(texts.PICTURE_DAMAGED)
        if name == b"IEND":
            return
        offset += 12 + length
    raise UnacceptablePictureError(texts.PICTURE_TOO_MANY_CHUNKS.format(limit=_MAX_CHUNKS))


def _read_rotation(opened: ImageFile.ImageFile) -> Image.Transpose | None:
    """Return the transformation that turns the picture upright, or none without readable metadata."""
    try:
        orientation = opened.getexif().get(_EXIF_ORIENTATION)
    except _DECODER_ERRORS:
        return None
    return _TRANSPOSE_BY_ORIENTATION.get(orientation) if isinstance(orientation, int) else None


def _shrink(opened: ImageFile.ImageFile, *, largest: int) -> Image.Image:
    """Shrink a picture by an integer factor to at least the largest size, in RGB, premultiplied RGBa or CMYK.

    The JPEG decoder has already done a part of the reduction. Conversion in strips avoids several copies of a large
    picture in memory.
    """
    mode = "RGBa" if opened.has_transparency_data else "RGB"
    if opened.mode == "CMYK":
        mode = "CMYK"  # the colour profile, if any, is needed for the conversion
    width, height = opened.size
    factor = max(1, max(width, height) // largest)
    rows = _STRIP_HEIGHT * factor
    drawn = Image.new(mode, (-(-width // factor), -(-height // factor)))
    for top in range(0, height, rows):
        strip = _convert_strip(opened.crop((0, top, width, min(top + rows, height))), mode)
        drawn.paste(strip.reduce(factor) if factor > 1 else strip, (0, top // factor))
    return drawn


def _convert_strip(strip: Image.Image, mode: str) -> Image.Image:
    if strip.mode.startswith("I;16"):
        # Scale 16-bit values. An unscaled conversion would clip almost all values to white.
        strip = strip.point(lambda value: value / 257).convert("L")
    if mode == "RGBa":
        return strip.convert("RGBA").convert("RGBa")
    return strip.convert(mode)


def _convert_to_srgb(drawn: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert a picture with a colour profile to sRGB. A picture without a profile counts as sRGB."""
    alpha = drawn.mode == "RGBa"
    plain = drawn.convert("RGBA") if alpha else drawn
    if profile:
        try:
            original = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            if original.profile.xcolor_space.strip() == ("CMYK" if plain.mode == "CMYK" else "RGB"):
                result = ImageCms.profileToProfile(
                    plain, original, ImageCms.createProfile("sRGB"), outputMode="RGBA" if alpha else "RGB"
                )
                plain = plain if result is None else result
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            # Ignore an unreadable profile.
            plain = drawn.convert("RGBA") if alpha else drawn
    is_transparent = alpha and plain.getchannel("A").getextrema()[0] != 255
    return plain.convert("RGBa" if is_transparent else "RGB")


def _encode_renditions(drawn: Image.Image, kind: PictureFormat, sizes: Sequence[int]) -> list[Rendition]:
    renditions = []
    resized = drawn
    for size in sizes:
        resized = _resize(drawn, size)
        renditions.append(_encode(resized, WEBP, name=str(size)))
        if max(drawn.size) <= size:
            break
    if kind is not WEBP:
        renditions.append(_encode(resized, kind, name=kind.suffix))
    return renditions


def _resize(drawn: Image.Image, longest: int) -> Image.Image:
    width, height = drawn.size
    if max(width, height) <= longest:
        return drawn
    scale = longest / max(width, height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return drawn.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0)


def _encode(picture: Image.Image, kind: PictureFormat, *, name: str) -> Rendition:
    image = picture.convert("RGBA") if picture.mode == "RGBa" else picture
    out = io.BytesIO()
    if kind is WEBP:
        # Pictures up to 1,000 pixels are encoded with more effort, which would be too slow for larger pictures.
        image.save(out, "WEBP", quality=80, method=4 if max(image.size) <= 1_000 else 2)
    elif kind is JPEG:
        image.save(out, "JPEG", quality=85, progressive=True)
    else:
        image.save(out, kind.name)
    return Rendition(name, kind.content_type, *image.size, out.getvalue())
