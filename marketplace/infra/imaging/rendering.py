"""Pictures drawn anew: decoded within bounds, turned upright, in sRGB, without metadata, in several sizes.

Run in a process of its own (``decode_worker``): a decoder that is fed hostile bytes may take long, take much, or crash.
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

_SAMPLES_PER_PIXEL = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a pixel, by colour type
_MAX_DEFLATE_RATIO = 1_032  # what deflate makes of a byte at most


class _CompletePng(PngImagePlugin.PngImageFile):
    """A PNG of which all rows must be there: Pillow takes the end of the packed pixels for the end of the picture.

    The decoder is given the pixels unpacked, piece by piece, in a stream that never says it ends.

    The decoder is done when it has all rows; if it asks for more than there is, the file is cut off. Counting
    them beforehand would take as long again, since most of decoding is unpacking.
    """

    def load_prepare(self) -> None:
        """Begin to unpack.

        :raises OSError: the picture's frame is not all of the picture
        """
        if [tile.extents for tile in self.tile] != [(0, 0, *self.size)]:
            raise OSError("the first frame is smaller than the picture")
        super().load_prepare()
        self._unpacker = zlib.decompressobj()
        self._packed = b""
        self._start = b"\x78\x01"

    def load_read(self, read_bytes: int) -> bytes:
        """Give the decoder the next pixels, as a block that is not packed (at most 65,535 bytes) and not the last.

        :param read_bytes: not looked at: the decoder takes what it is given
        :return: nothing when there are no more
        """
        while not (pixels := self._unpacker.decompress(self._packed, 65_535)):
            self._packed = b"" if self._unpacker.eof else super().load_read(4 * 1024)
            if not self._packed:
                return b""
        self._packed = self._unpacker.unconsumed_tail
        start, self._start = self._start, b""
        return start + struct.pack("<BHH", 0, len(pixels), len(pixels) ^ 0xFFFF) + pixels


_DAMAGED_MESSAGE = "The file is damaged or cut off: it can't be read as a picture."
# Whatever a decoder says of bytes that it can't make sense of.
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
# A scan of few bytes makes the decoder go over the whole picture; cameras write a dozen.
_MAX_SCANS = 50
# A PNG of 5 MB has some hundred; each is a few lines of Python's work.
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
_STRIP_HEIGHT = 64  # rows of the result that are converted at once

# Texts that a PNG carries are not read: little of them is enough to get past them.
PngImagePlugin.MAX_TEXT_CHUNK = 64 * 1024
PngImagePlugin.MAX_TEXT_MEMORY = 512 * 1024


def render(
    stream: IO[bytes],
    kind: PictureFormat,
    *,
    sizes: Sequence[int],
    on_decoded: Callable[[], object] | None = None,
) -> Picture:
    """Draw a picture anew: in WebP in several sizes, and in its own format in the largest.

    It is never enlarged; sizes that it does not fill give one rendition. Of an animation, it is the first frame.

    :param stream: the file, which can be searched
    :param kind: its format, as its first bytes tell
    :param sizes: longest sides in pixels, ascending
    :param on_decoded: is called when all of the file was read
    :raises UnacceptablePictureError: it can't be decoded, or not within bounds
    """
    try:
        opened = _open_within_limits(stream, kind)
        size = opened.size
        profile = opened.info.get("icc_profile")
        opened.draft(opened.mode, (sizes[-1], sizes[-1]))
        opened.load()
        # Not before: to look for metadata behind its pixels, a PNG would be decoded, and twice if that fails.
        rotation = _read_rotation(opened)
        if on_decoded is not None:
            on_decoded()
        picture = _shrink(opened, largest=sizes[-1])
        opened.close()
    except _DECODER_ERRORS as error:
        raise UnacceptablePictureError(_DAMAGED_MESSAGE) from error
    picture = _convert_to_srgb(picture, profile)
    if rotation is not None:
        picture = picture.transpose(rotation)
    # What is left of the file beside its pixels ends here.
    picture.info.clear()
    width, height = size[::-1] if rotation in _SWAPS_SIDES else size
    return Picture(kind, width, height, _encode_renditions(picture, kind, sizes))


def _open_within_limits(stream: IO[bytes], kind: PictureFormat) -> ImageFile.ImageFile:
    """Open a file as what its first bytes say, and hold its size against the bounds; nothing is decoded yet."""
    content = stream.read()
    if kind is WEBP and (size := read_webp_size(content[:HEADER_BYTES])) is not None:
        ensure_acceptable_size(*size, max_pixels=kind.max_pixels)
    if kind is PNG:
        _ensure_intact_chunks(content)
    if kind is JPEG and content.count(b"\xff\xda") > _MAX_SCANS:
        raise UnacceptablePictureError(f"The file has more than {_MAX_SCANS} scans.")
    opened = _DECODERS[kind](io.BytesIO(content))
    held_at_once = kind is JPEG and opened.info.get("progressive")
    ensure_acceptable_size(
        *opened.size, max_pixels=MAX_PROGRESSIVE_JPEG_PIXELS if held_at_once else kind.max_pixels
    )
    if kind is PNG and not _may_be_complete(content):
        raise UnacceptablePictureError(_DAMAGED_MESSAGE)
    return opened


def _may_be_complete(content: bytes) -> bool:
    """Tell, unpacking nothing, whether so short a file may hold all pixels of its header.

    :param content: the file, with a header
    """
    width, height, depth, colours = struct.unpack_from(">IIBB", content, 16)
    needed: int = width * height * depth * _SAMPLES_PER_PIXEL.get(colours, 1) // 8
    return needed <= len(content) * _MAX_DEFLATE_RATIO


def _ensure_intact_chunks(content: bytes) -> None:
    """Go through a PNG's chunks to its end: the decoder takes damaged pixels for pixels, and reads no end."""
    view = memoryview(content)
    offset = 8
    for _ in range(_MAX_CHUNKS):
        length, name = struct.unpack_from(">I4s", content, offset)
        (expected_crc,) = struct.unpack_from(">I", content, offset + 8 + length)
        if zlib.crc32(view[offset + 4 : offset + 8 + length]) != expected_crc:
            raise UnacceptablePictureError(_DAMAGED_MESSAGE)
        if name == b"IEND":
            return
        offset += 12 + length
    raise UnacceptablePictureError(f"The file has more than {_MAX_CHUNKS:,} parts.")


def _read_rotation(opened: ImageFile.ImageFile) -> Image.Transpose | None:
    """Tell how the picture must be turned to stand upright; metadata that can't be read tell nothing."""
    try:
        orientation = opened.getexif().get(_EXIF_ORIENTATION)
    except _DECODER_ERRORS:
        return None
    return _TRANSPOSE_BY_ORIENTATION.get(orientation) if isinstance(orientation, int) else None


def _shrink(opened: ImageFile.ImageFile, *, largest: int) -> Image.Image:
    """Shrink by a whole number to what is at least the largest size, in RGB, premultiplied RGBa or CMYK.

    A JPEG's decoder has done half of it. The rest goes by strips: converted whole, a large picture would stand
    in memory several times.
    """
    mode = "RGBa" if opened.has_transparency_data else "RGB"
    if opened.mode == "CMYK":
        mode = "CMYK"  # its profile, if there is one, tells how to make colours of it
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
        # Converted as it is, all but the darkest would be white.
        strip = strip.point(lambda value: value / 257).convert("L")
    if mode == "RGBa":
        return strip.convert("RGBA").convert("RGBa")
    return strip.convert(mode)


def _convert_to_srgb(drawn: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert to sRGB what was drawn in the colours of another profile; without one, it is sRGB already."""
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
            # A profile that nobody can read is as good as none.
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
        # Up to 1,000 pixels on the longest side WebP takes its time.
        image.save(out, "WEBP", quality=80, method=4 if max(image.size) <= 1_000 else 2)
    elif kind is JPEG:
        image.save(out, "JPEG", quality=85, progressive=True)
    else:
        image.save(out, kind.name)
    return Rendition(name, kind.content_type, *image.size, out.getvalue())
