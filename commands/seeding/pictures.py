"""Generated pictures of products. The same number gives the same picture, stored under the hash of its content."""

import colorsys
import functools
import hashlib
import io
import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from PIL import Image, ImageDraw, ImageFont, ImageOps

from commands.seeding.categories import ROOT_NAMES
from commands.seeding.loading import ProgressCallback
from commands.seeding.products import DEMO_PRODUCTS, PICTURE_SIZE, PICTURE_TYPE, SeededProduct, build_product
from marketplace.providers.storage import IMMUTABLE_CACHE_CONTROL, ObjectStorage

_SHAPE_SIZE = (260, 260)
_MASK_FILL = 240
_LINE_CHARACTERS = 30
# A simple shape for each root category, in a square of 100 by 100 units. Polygons and ellipses are filled.
# Windows (polygons) and cuts (ellipses) are holes in the shape.
_SHAPES: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...] = (
    (("polygon", (10, 20, 48, 30, 48, 90, 10, 80)), ("polygon", (90, 20, 52, 30, 52, 90, 90, 80))),
    (("polygon", (28, 5, 72, 5, 72, 95, 28, 95)), ("window", (33, 14, 67, 14, 67, 82, 33, 82))),
    (
        ("polygon", (5, 55, 95, 55, 95, 75, 5, 75)),
        ("polygon", (5, 30, 14, 30, 14, 95, 5, 95)),
        ("ellipse", (18, 38, 44, 56)),
    ),
    (("polygon", (30, 10, 70, 10, 98, 36, 82, 52, 74, 44, 74, 95, 26, 95, 26, 44, 18, 52, 2, 36)),),
    (("ellipse", (10, 30, 90, 95)), ("cut", (6, 20, 94, 55)), ("polygon", (6, 55, 94, 55, 90, 64, 10, 64))),
    (("polygon", (35, 35, 65, 35, 72, 95, 28, 95)), ("polygon", (42, 10, 58, 10, 58, 30, 42, 30))),
    (("ellipse", (10, 10, 90, 90)), ("cut", (38, 38, 62, 62))),
    (("polygon", (15, 5, 40, 30, 30, 40, 5, 15)), ("polygon", (38, 32, 95, 85, 85, 95, 32, 38))),
)


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def draw_picture(number: int) -> bytes:
    """Draw a picture.

    :param number: picture number. Numbers above DEMO_PRODUCTS are second views of products
    :return: a WebP file
    """
    item = build_product((number - 1) % DEMO_PRODUCTS + 1)
    chance = random.Random(f"picture:{number}")  # noqa: S311 - reproducible on purpose
    hue = (item.category.root / len(ROOT_NAMES) + chance.uniform(-0.04, 0.04)) % 1
    picture = _background(hue, chance).convert("RGBA")
    layer = Image.new("RGBA", PICTURE_SIZE)
    pencil = ImageDraw.Draw(layer)
    for _ in range(7):
        x, y, radius = chance.randint(0, 480), chance.randint(0, 360), chance.randint(15, 110)
        pencil.ellipse((x - radius, y - radius, x + radius, y + radius), fill=(255, 255, 255, 22))
    picture.alpha_composite(layer)
    mask = _shape(item, second=number > DEMO_PRODUCTS, tilt=chance.uniform(-9, 9))
    picture.paste((255, 255, 255, 255), (110, 10), mask)
    _caption(picture, item)
    out = io.BytesIO()
    # Slower WebP methods would save only some kilobytes.
    picture.convert("RGB").save(out, "WEBP", quality=72, method=2)
    return out.getvalue()


def _background(hue: float, chance: random.Random) -> Image.Image:
    dark, light = (
        tuple(round(255 * part) for part in colorsys.hsv_to_rgb(hue, saturation, value))
        for saturation, value in ((0.72, chance.uniform(0.38, 0.5)), (0.5, chance.uniform(0.75, 0.88)))
    )
    gradient = Image.linear_gradient("L").rotate(chance.choice((0, 90, 180)))
    return ImageOps.colorize(gradient.resize(PICTURE_SIZE), dark, light)


def _shape(item: SeededProduct, *, second: bool, tilt: float) -> Image.Image:
    """Draw the shape of a product's root category, as a mask."""
    mask = Image.new("L", _SHAPE_SIZE)
    pencil = ImageDraw.Draw(mask)
    scale = 1.7 if second else 2.0
    margin = (_SHAPE_SIZE[0] - 100 * scale) / 2
    for kind, points in _SHAPES[item.category.root]:
        paint = pencil.polygon if kind in ("polygon", "window") else pencil.ellipse
        paint(
            [value * scale + margin for value in points],
            fill=_MASK_FILL if kind in ("polygon", "ellipse") else 0,
        )
    return mask.rotate(tilt + (18 if second else 0), Image.Resampling.BICUBIC)


def _caption(picture: Image.Image, item: SeededProduct) -> None:
    title = item.title
    if len(title) > _LINE_CHARACTERS:
        title = title[: _LINE_CHARACTERS - 1].rstrip(" ,(") + "…"
    pencil = ImageDraw.Draw(picture)
    pencil.rectangle((0, 292, 480, 360), fill=(20, 20, 28, 255))
    pencil.text((20, 300), title, font=_font(24), fill=(255, 255, 255, 255))
    pencil.text((20, 332), item.category.node.name, font=_font(16), fill=(200, 200, 210, 255))


def store_pictures(
    storage: ObjectStorage, *, bucket: str, numbers: Iterable[int], progress: ProgressCallback
) -> dict[int, str]:
    """Draw pictures and upload them to the object storage.

    :param bucket: the public bucket
    :param numbers: picture numbers
    :param progress: called after each uploaded picture
    :return: object keys by picture number
    :raises ProviderUnavailableError: the object storage does not accept a picture
    """

    def store(number: int) -> tuple[int, str]:
        content = draw_picture(number)
        key = f"products/{hashlib.sha256(content).hexdigest()}.webp"
        storage.put(
            bucket=bucket,
            key=key,
            content=content,
            content_type=PICTURE_TYPE,
            cache_control=IMMUTABLE_CACHE_CONTROL,
        )
        return number, key

    keys: dict[int, str] = {}
    with ThreadPoolExecutor(max_workers=8) as pool:
        try:
            for number, key in pool.map(store, numbers):
                keys[number] = key
                progress(1)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return keys
