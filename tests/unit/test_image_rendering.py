"""Image rendering: upright, in sRGB, without metadata, in several sizes, and deterministic."""

import io
import struct
from contextlib import suppress
from typing import Any

import pytest
from PIL import Image, ImageCms

from marketplace.infra.imaging.formats import (
    FORMATS,
    GIF,
    JPEG,
    PNG,
    WEBP,
    Picture,
    PictureFormat,
    UnacceptablePictureError,
    detect_format,
    ensure_acceptable_size,
    read_webp_size,
)
from marketplace.infra.imaging.rendering import render
from tests.support.sample_images import decode_image, encode_image, gradient, photo

SIZES = (320, 800, 1600)
# Each EXIF orientation, and the upright position of the corner stored at the top left.
CORNERS = {1: "tl", 2: "tr", 3: "br", 4: "bl", 5: "tl", 6: "tr", 7: "br", 8: "bl"}
RED, BLUE = (254, 0, 0), (0, 0, 254)


def drawn(content: bytes, kind: PictureFormat | None = None) -> Picture:
    found = kind or detect_format(content)
    assert found is not None
    return render(io.BytesIO(content), found, sizes=SIZES)


def names(picture: Picture) -> list[str]:
    return [one.name for one in picture.renditions]


def near(one: Any, other: Any, *, by: int = 12) -> bool:
    return all(abs(a - b) <= by for a, b in zip(one, other, strict=True))


def with_orientation(picture: Image.Image, orientation: int, kind: str) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode_image(picture, kind, exif=exif)


class TestSizes:
    def test_photograph_has_three_webp_sizes_and_a_jpeg(self) -> None:
        picture = drawn(photo(4000, 3000))

        assert (picture.width, picture.height, picture.format) == (4000, 3000, JPEG)
        assert [(one.name, one.width, one.height, one.content_type) for one in picture.renditions] == [
            ("320", 320, 240, "image/webp"),
            ("800", 800, 600, "image/webp"),
            ("1600", 1600, 1200, "image/webp"),
            ("jpg", 1600, 1200, "image/jpeg"),
        ]
        for one in picture.renditions:
            found = decode_image(one.content)
            assert (found.size, found.mode) == ((one.width, one.height), "RGB")
            assert found.format == ("JPEG" if one.name == "jpg" else "WEBP")

    def test_renditions_show_the_original_image(self) -> None:
        """Reduction by the decoder, by strips and by resizing keeps the image content."""
        for kind in ("JPEG", "PNG", "WEBP"):
            for one in drawn(encode_image(gradient(3700, 2900), kind)).renditions:
                expected = gradient(one.width, one.height)
                found = decode_image(one.content).convert("RGB")
                for x, y in ((0.1, 0.1), (0.5, 0.3), (0.9, 0.9), (0.02, 0.98)):
                    place = (int(x * one.width), int(y * one.height))
                    assert near(found.getpixel(place), expected.getpixel(place)), (kind, one.name, place)

    @pytest.mark.parametrize(
        ("size", "expected"),
        [
            ((1, 1), ["320", "jpg"]),
            ((320, 200), ["320", "jpg"]),
            ((321, 200), ["320", "800", "jpg"]),
            ((800, 800), ["320", "800", "jpg"]),
            ((801, 10 * 80), ["320", "800", "1600", "jpg"]),
        ],
    )
    def test_renditions_are_not_enlarged_or_repeated(
        self, size: tuple[int, int], expected: list[str]
    ) -> None:
        picture = drawn(photo(*size))

        assert names(picture) == expected
        assert (picture.renditions[-1].width, picture.renditions[-1].height) == size

    def test_portrait_image_is_scaled_by_height(self) -> None:
        assert [(one.width, one.height) for one in drawn(photo(100, 2000)).renditions] == [
            (16, 320),
            (40, 800),
            (80, 1600),
            (80, 1600),
        ]

    def test_webp_image_gets_no_jpeg_rendition(self) -> None:
        assert names(drawn(encode_image(gradient(2000, 1000), "WEBP"))) == ["320", "800", "1600"]

    def test_same_file_gives_same_bytes(self) -> None:
        for kind in ("JPEG", "PNG", "WEBP", "GIF"):
            content = encode_image(gradient(900, 500), kind)
            assert drawn(content) == drawn(content)


class TestOrientation:
    @pytest.mark.parametrize("orientation", CORNERS)
    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
    def test_image_with_orientation_is_rendered_upright(self, orientation: int, kind: str) -> None:
        picture = Image.new("RGB", (160, 80), BLUE)
        picture.paste(RED, (0, 0, 40, 40))

        result = drawn(with_orientation(picture, orientation, kind))

        width, height = (80, 160) if orientation > 4 else (160, 80)
        assert (result.width, result.height) == (width, height)
        for one in result.renditions:
            found = decode_image(one.content).convert("RGB")
            assert found.size == (width, height)
            places = {
                "tl": (8, 8), "tr": (width - 9, 8), "bl": (8, height - 9), "br": (width - 9, height - 9),
            }  # fmt: skip
            red = [name for name, place in places.items() if near(found.getpixel(place), RED, by=40)]
            assert red == [CORNERS[orientation]]

    @pytest.mark.parametrize("orientation", [0, 9, 77])
    def test_unknown_orientation_is_ignored(self, orientation: int) -> None:
        assert drawn(with_orientation(gradient(30, 20), orientation, "JPEG")).width == 30

    @pytest.mark.parametrize(
        "exif", [b"Exif\x00\x00", b"Exif\x00\x00MM\x00*", b"Exif\x00\x00II*\x00\xff\xff\xff\xff", b"x"]
    )
    @pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
    def test_unreadable_exif_is_ignored(self, exif: bytes) -> None:
        assert drawn(encode_image(gradient(30, 20), "JPEG", exif=exif)).width == 30


class TestMetadata:
    MARKS = (
        b"Exif",
        b"GPS",
        b"Lagos",
        b"http://ns.adobe.com",
        b"ICC_PROFILE",
        b"A secret comment",
        b"eXIf",
        b"tEXt",
    )

    def tainted(self, kind: str) -> bytes:
        exif = Image.Exif()
        exif[0x010E] = "Lagos"
        exif[0x8825] = {1: "N", 2: (6.0, 27.0, 14.0), 3: "E", 4: (3.0, 23.0, 40.0)}
        options: dict[str, Any] = {
            "exif": exif,
            "icc_profile": ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(),
        }
        if kind == "JPEG":
            options |= {"comment": "A secret comment", "xmp": b"<x xmlns='http://ns.adobe.com/exif/1.0/'/>"}
        if kind == "WEBP":
            options |= {"xmp": b"<x xmlns='http://ns.adobe.com/exif/1.0/'/>"}
        if kind == "PNG":
            from PIL.PngImagePlugin import PngInfo

            info = PngInfo()
            info.add_text("Comment", "A secret comment")
            options |= {"pnginfo": info}
        return encode_image(gradient(500, 300), kind, **options)

    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
    def test_metadata_is_removed(self, kind: str) -> None:
        content = self.tainted(kind)
        assert any(mark in content for mark in self.MARKS)
        assert decode_image(content).getexif().get_ifd(0x8825)

        for one in drawn(content).renditions:
            assert not [mark for mark in self.MARKS if mark in one.content]
            found = decode_image(one.content)
            assert dict(found.getexif()) == {}
            assert not {"exif", "icc_profile", "xmp", "comment", "Comment", "dpi"} & found.info.keys()

    def test_gif_comment_is_removed(self) -> None:
        content = encode_image(gradient(50, 30), "GIF", comment=b"A secret comment")
        assert b"A secret comment" in content

        assert not [one for one in drawn(content).renditions if b"secret" in one.content]


class TestColours:
    def test_transparency_is_kept(self) -> None:
        for kind in ("PNG", "WEBP"):
            for one in drawn(encode_image(gradient(3300, 2000, "RGBA"), kind)).renditions:
                found = decode_image(one.content)
                assert found.mode == "RGBA"
                assert found.getpixel((10, 1))[3] < 12
                assert found.getpixel((10, one.height - 2))[3] > 240

    def test_transparent_pixels_do_not_darken_the_edge(self) -> None:
        """Invisible black pixels must not mix with adjacent white pixels."""
        picture = Image.new("RGBA", (3200, 1600), (0, 0, 0, 0))
        picture.paste((255, 255, 255, 255), (0, 0, 1601, 1600))

        [small, *_] = drawn(encode_image(picture, "PNG")).renditions

        edge = decode_image(small.content)
        seen = [edge.getpixel((x, 80)) for x in range(150, 170)]
        assert all(min(pixel[:3]) > 200 for pixel in seen if pixel[3] > 100)

    def test_fully_opaque_alpha_channel_is_dropped(self) -> None:
        picture = gradient(50, 30)
        picture.putalpha(255)

        assert {decode_image(one.content).mode for one in drawn(encode_image(picture, "PNG")).renditions} == {
            "RGB"
        }

    def test_palette_colours_are_kept(self) -> None:
        for kind in ("PNG", "GIF"):
            picture = Image.new("P", (900, 700))
            picture.putpalette([200, 30, 30, 30, 30, 200] + [0] * 762)
            picture.paste(1, (450, 0, 900, 700))
            for one in drawn(encode_image(picture, kind)).renditions:
                found = decode_image(one.content).convert("RGB")
                assert near(found.getpixel((5, 5)), (200, 30, 30), by=20), (kind, one.name)
                assert near(found.getpixel((one.width - 5, 5)), (30, 30, 200), by=20), (kind, one.name)

    def test_palette_with_transparency_keeps_alpha(self) -> None:
        picture = Image.new("P", (90, 70), 1)
        picture.putpalette([200, 30, 30, 30, 30, 200] + [0] * 762)
        picture.paste(0, (0, 0, 45, 70))
        for kind in ("PNG", "GIF"):
            for one in drawn(encode_image(picture, kind, transparency=0)).renditions:
                found = decode_image(one.content).convert("RGBA")
                assert (found.getpixel((5, 5))[3], found.getpixel((80, 5))[3]) == (0, 255), (kind, one.name)

    def test_cmyk_is_rendered_as_rgb(self) -> None:
        picture = Image.new("CMYK", (400, 300), (0, 255, 255, 0))

        for one in drawn(encode_image(picture, "JPEG")).renditions:
            found = decode_image(one.content)
            assert found.mode == "RGB"
            assert near(found.getpixel((200, 150)), (255, 0, 0), by=20)

    @pytest.mark.parametrize("mode", ["L", "1", "LA", "I;16"])
    def test_grey_image_keeps_brightness(self, mode: str) -> None:
        if mode == "I;16":
            picture = Image.new("I;16", (60, 40), 0xC0C0)
            expected = 0xC0
        else:
            picture = Image.new("L", (60, 40), 255).convert(mode)
            expected = 255

        for one in drawn(encode_image(picture, "PNG")).renditions:
            assert near(decode_image(one.content).convert("RGB").getpixel((30, 20)), (expected,) * 3, by=3)

    def test_other_colour_profile_is_converted_to_srgb(self) -> None:
        """The profile exchanges red and blue, so a viewer that applies the profile shows red."""
        profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
        red, blue = profile.index(b"rXYZ"), profile.index(b"bXYZ")
        profile[red : red + 4], profile[blue : blue + 4] = b"bXYZ", b"rXYZ"
        content = encode_image(Image.new("RGB", (60, 40), (0, 0, 255)), "PNG", icc_profile=bytes(profile))

        for one in drawn(content).renditions:
            assert near(decode_image(one.content).getpixel((30, 20)), (255, 0, 0), by=12)

    @pytest.mark.parametrize("profile", [b"no profile at all", b"\x00" * 3000])
    def test_unreadable_colour_profile_is_ignored(self, profile: bytes) -> None:
        content = encode_image(Image.new("RGB", (60, 40), (200, 20, 20)), "PNG", icc_profile=profile)

        assert near(
            decode_image(drawn(content).renditions[0].content).getpixel((30, 20)), (200, 20, 20), by=12
        )

    def test_unsuitable_profile_of_grey_image_is_ignored(self) -> None:
        grey = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
        content = encode_image(Image.new("L", (60, 40), 200), "PNG", icc_profile=grey)

        assert near(decode_image(drawn(content).renditions[0].content).getpixel((30, 20)), (200,) * 3, by=4)


class TestAnimations:
    @pytest.mark.parametrize("kind", ["GIF", "WEBP"])
    def test_first_frame_of_animation_is_rendered(self, kind: str) -> None:
        frames = [Image.new("RGB", (60, 40), RED), Image.new("RGB", (60, 40), BLUE)]
        content = encode_image(frames[0], kind, save_all=True, append_images=frames[1:], duration=100)
        assert getattr(decode_image(content), "n_frames", 1) == 2

        for one in drawn(content).renditions:
            found = decode_image(one.content)
            assert getattr(found, "n_frames", 1) == 1
            assert near(found.convert("RGB").getpixel((30, 20)), RED, by=12)


class TestFormatDetection:
    def test_format_is_detected_by_first_bytes(self) -> None:
        for kind, expected in {"JPEG": JPEG, "PNG": PNG, "WEBP": WEBP, "GIF": GIF}.items():
            assert detect_format(encode_image(gradient(9, 9), kind)[:30]) is expected
        for other in (b"", b"\xff\xd8", b"RIFF....WAVE", b"GIF88a", b"\x89PNG\r\n", b"BM", b"<svg"):
            assert detect_format(other) is None
        assert {one.content_type for one in FORMATS.values()} == {
            "image/jpeg", "image/png", "image/webp", "image/gif",
        }  # fmt: skip

    @pytest.mark.parametrize("options", [{}, {"lossless": True}, {"exif": b"Exif\x00\x00"}])
    def test_size_of_webp_is_read_from_header(self, options: dict[str, Any]) -> None:
        content = encode_image(gradient(345, 123), "WEBP", **options)

        assert read_webp_size(content[:30]) == (345, 123)
        assert read_webp_size(content[:29]) is None
        assert read_webp_size(b"RIFF....WEBPODD " + bytes(30)) is None

    def test_file_with_content_of_another_format_is_refused(self) -> None:
        with pytest.raises(UnacceptablePictureError, match="damaged or incomplete"):
            drawn(photo(30, 20), GIF)
        with pytest.raises(UnacceptablePictureError, match="damaged or incomplete"):
            drawn(b"\xff\xd8\xff" + encode_image(gradient(9, 9), "PNG"))

    @pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
    @pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.9, 0.99])
    def test_truncated_file_is_refused(self, kind: str, part: float) -> None:
        content = encode_image(gradient(700, 500), kind)

        with pytest.raises(UnacceptablePictureError, match="incomplete"):
            drawn(content[: int(len(content) * part)])

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_file_with_changed_bytes_is_refused_or_rendered(self) -> None:
        """A changed byte causes no other outcome."""
        for kind in ("JPEG", "PNG", "WEBP", "GIF"):
            content = bytearray(encode_image(gradient(60, 40), kind))
            for place in range(12, min(len(content), 400), 3):
                changed = bytearray(content)
                changed[place] ^= 0xFF
                found = detect_format(bytes(changed[:30]))
                assert found is not None
                with suppress(UnacceptablePictureError):
                    assert drawn(bytes(changed), found).renditions


class TestBounds:
    @pytest.mark.parametrize(
        ("size", "message"),
        [
            ((0, 5), "no pixels"),
            ((12_001, 9_000), "at most 12,000 pixels"),
            ((4_001, 200), "20 times"),
            ((200, 4_001), "20 times"),
            ((5_000, 5_000), "25.0 megapixels"),
        ],
    )
    def test_size_out_of_bounds_is_refused(self, size: tuple[int, int], message: str) -> None:
        with pytest.raises(UnacceptablePictureError, match=message):
            ensure_acceptable_size(*size, max_pixels=24_000_000)

    @pytest.mark.parametrize("size", [(1, 1), (1, 20), (4_000, 200), (12_000, 2_000), (6_000, 4_000)])
    def test_size_within_bounds_is_accepted(self, size: tuple[int, int]) -> None:
        ensure_acceptable_size(*size, max_pixels=24_000_000)

    def test_progressive_jpeg_has_a_lower_pixel_limit(self) -> None:
        content = bytearray(photo(64, 64, progressive=True))
        start = content.index(b"\xff\xc2") + 5
        content[start : start + 4] = struct.pack(">HH", 6_000, 6_000)

        with pytest.raises(UnacceptablePictureError, match="25 megapixels"):
            drawn(bytes(content))
