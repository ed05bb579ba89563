"""PNGs of which all rows must be there: Pillow takes the end of the packed pixels for the end of the picture."""

import struct
import zlib

from PIL import PngImagePlugin

_SAMPLES_PER_PIXEL = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a pixel, by colour type
_MAX_DEFLATE_RATIO = 1_032  # what deflate makes of a byte at most
_READ_BYTES = 4 * 1024
_MAX_STORED_BLOCK_BYTES = 65_535  # what a block that is not packed can hold


class CompletePng(PngImagePlugin.PngImageFile):
    """A PNG whose decoder is given its pixels unpacked, piece by piece, in a stream that never says it ends.

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
        """Give the decoder the next pixels, as a block that is not packed and not the last.

        :param read_bytes: not looked at: the decoder takes what it is given
        :return: nothing when there are no more
        """
        while not (pixels := self._unpacker.decompress(self._packed, _MAX_STORED_BLOCK_BYTES)):
            if self._unpacker.eof:
                return b""
            self._packed = super().load_read(_READ_BYTES)
            if not self._packed:
                return b""
        self._packed = self._unpacker.unconsumed_tail
        start, self._start = self._start, b""
        return start + struct.pack("<BHH", 0, len(pixels), len(pixels) ^ 0xFFFF) + pixels


def may_be_complete(content: bytes) -> bool:
    """Tell, unpacking nothing, whether so short a file may hold all pixels of its header.

    :param content: the file, with a header
    """
    width, height, depth, colours = struct.unpack_from(">IIBB", content, 16)
    needed: int = width * height * depth * _SAMPLES_PER_PIXEL.get(colours, 1) // 8
    return needed <= len(content) * _MAX_DEFLATE_RATIO
