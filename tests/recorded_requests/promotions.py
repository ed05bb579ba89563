"""Promotions: flash sales, banners, vibes and featured products."""

from typing import Any

from tests.recorded_requests.market import STORE, STORE_2, available_products, later
from tests.recorded_requests.player import UNKNOWN_ID, Player


def play(player: Player) -> None:
    """Read and change promotions."""
    store_products = [card["id"] for card in available_products(player, STORE)]
    _sales(player, store_products)
    _banners(player)
    _vibes(player, store_products)
    _featured(player, store_products)


def _sales(player: Player, store_products: list[str]) -> None:
    path, one = "/api/flash-sales", "/api/flash-sales/:saleId"
    for state in ("upcoming", "running", "sold_out"):
        player.ask(f"sales, {state}", "GET", path, query={"state": state})
    player.ask("sales, active", "GET", f"{path}/active", query={"campus": "north"})
    player.ask("sales for staff", "GET", f"{path}/all", who="moderator", query={"limit": "10"})

    def make(step: str, product: str = store_products[12], **body: Any) -> str:
        given = {"productId": product, "endsAt": later(hours=2), **body}
        return player.ask(f"sale, {step}", "POST", path, who="moderator", body=given).id()

    sale = make("made", percentOff=25, quantity=4)
    make("of the same product", percentOff=20)
    planned = make("planned", store_products[13], salePriceMinor=100_000, startsAt=later(hours=1))
    make("two prices", store_products[14], percentOff=5, salePriceMinor=100_000)
    make("no price", store_products[14])
    make("dearer", store_products[14], salePriceMinor=10_000_000_000)
    make("too cheap", store_products[14], salePriceMinor=100)
    make("over already", store_products[14], percentOff=5, endsAt=later(hours=-1))
    make("too long", store_products[14], percentOff=5, endsAt=later(days=31))
    make("begun already", store_products[14], percentOff=5, startsAt=later(hours=-1))
    make("of nothing", UNKNOWN_ID, percentOff=5)
    make("without zone", store_products[14], percentOff=5, endsAt="2030-01-01T00:00:00")
    player.ask(
        "sale, changed",
        "PUT",
        one,
        sale,
        who="moderator",
        body={"percentOff": 30, "quantity": 6, "revision": 1},
    )
    player.ask("sale, stale", "PUT", one, sale, who="moderator", body={"percentOff": 31, "revision": 1})
    player.ask(
        "sale, moved after its beginning",
        "PUT",
        one,
        sale,
        who="moderator",
        body={"startsAt": later(hours=1)},
    )
    player.ask(
        "sale, planned, moved",
        "PUT",
        one,
        planned,
        who="moderator",
        body={"startsAt": later(minutes=90), "salePriceMinor": 110_000},
    )
    player.ask("product on sale", "GET", "/api/products/:productId", store_products[12])
    player.ask("sales, active with ours", "GET", f"{path}/active")
    player.ask(
        "sales of a product", "GET", f"{path}/all", who="moderator", query={"productId": store_products[12]}
    )
    player.ask("sale, ended", "POST", f"{one}/end", sale, who="moderator")
    player.ask("sale, ended twice", "POST", f"{one}/end", sale, who="moderator")
    player.ask("sale, changed when over", "PUT", one, sale, who="moderator", body={"percentOff": 10})
    player.ask("sale, called off", "POST", f"{one}/end", planned, who="moderator")
    player.ask("sales that ended", "GET", f"{path}/all", who="moderator", query={"state": "ended"})


def _banners(player: Player) -> None:
    path, one = "/api/banners", "/api/banners/:bannerId"
    player.ask("banners", "GET", path, query={"placement": "hero", "campus": "north"})
    player.ask("banners for staff", "GET", f"{path}/all", who="moderator", query={"state": "running"})

    def make(step: str, **body: Any) -> str:
        given = {"title": "Recorded", "placement": "card", "imageUrl": "https://example.edu/a.png", **body}
        return player.ask(f"banner, {step}", "POST", path, who="moderator", body=given).id()

    banner = make("made", link="/vibes/exam-season", subtitle="Words", position=9, endsAt=later(days=3))
    make("begun already", startsAt=later(hours=-1))
    make("planned", startsAt=later(days=1))
    make("two pictures", imageId=UNKNOWN_ID)
    make("no picture", imageUrl=None)
    make("bad link", link="javascript:alert(1)")
    make("bad window", startsAt=later(days=2), endsAt=later(days=1))
    make("bad campus", campusId=UNKNOWN_ID)
    make("bad placement", placement="floor")
    player.ask(
        "banner, changed",
        "PUT",
        one,
        banner,
        who="moderator",
        body={"title": "Changed", "position": 1, "revision": 1},
    )
    player.ask("banner, stale", "PUT", one, banner, who="moderator", body={"title": "Changed", "revision": 1})
    player.ask("banner, emptied", "PUT", one, banner, who="moderator", body={"clear": ["subtitle", "endsAt"]})
    player.ask("banners with ours", "GET", path, query={"placement": "card"})
    player.ask("banner, gone", "DELETE", one, banner, who="moderator")
    player.ask("banner, gone twice", "DELETE", one, banner, who="moderator")
    player.ask("banner, changed when gone", "PUT", one, banner, who="moderator", body={"title": "x"})


def _vibes(player: Player, store_products: list[str]) -> None:
    path, one = "/api/vibes", "/api/vibes/:vibeId"
    player.ask("vibes", "GET", path, query={"campus": "north"})
    player.ask("vibe by its slug", "GET", "/api/vibes/:vibe", "exam-season")
    player.ask("vibe, unknown", "GET", "/api/vibes/:vibe", "no-such-vibe")
    player.ask("vibes for staff", "GET", f"{path}/all", who="moderator")

    def make(step: str, **body: Any) -> str:
        given = {"slug": "recorded-vibe", "title": "Recorded", "productIds": store_products[:3], **body}
        return player.ask(f"vibe, {step}", "POST", path, who="moderator", body=given).id()

    vibe = make("made", description="Words", imageUrl="https://example.edu/v.png")
    make("of the same slug")
    make("bad slug", slug="No Slug")
    make("unknown product", slug="other-vibe", productIds=[UNKNOWN_ID])
    make("product twice", slug="other-vibe", productIds=[store_products[0], store_products[0]])
    make("bad window", slug="other-vibe", startsAt=later(days=2), endsAt=later(days=1))
    player.ask("vibe by its id", "GET", "/api/vibes/:vibe", vibe)
    player.ask(
        "vibe, changed",
        "PUT",
        one,
        vibe,
        who="moderator",
        body={"productIds": store_products[1:5], "title": "Changed", "revision": 1},
    )
    player.ask("vibe, stale", "PUT", one, vibe, who="moderator", body={"title": "Changed", "revision": 1})
    player.ask("vibe after the change", "GET", "/api/vibes/:vibe", "recorded-vibe")
    player.ask("vibe, gone", "DELETE", one, vibe, who="moderator")
    player.ask("vibe, gone twice", "DELETE", one, vibe, who="moderator")


def _featured(player: Player, store_products: list[str]) -> None:
    path, one = "/api/products/featured", "/api/products/featured/:entryId"
    player.ask("featured for staff", "GET", f"{path}/all", who="moderator")

    def make(step: str, **body: Any) -> str:
        return player.ask(
            f"featured, {step}", "POST", path, who="moderator", body={"productId": store_products[15], **body}
        ).id()

    entry = make("made", position=1, endsAt=later(days=2))
    make("twice")
    make("unknown product", productId=UNKNOWN_ID)
    make("bad window", productId=store_products[16], startsAt=later(days=2), endsAt=later(days=1))
    make("bad position", productId=store_products[16], position=-1)
    player.ask("featured, changed", "PUT", one, entry, who="moderator", body={"position": 2, "revision": 1})
    player.ask("featured, stale", "PUT", one, entry, who="moderator", body={"position": 3, "revision": 1})
    player.ask("featured with ours", "GET", path)
    player.ask("featured, gone", "DELETE", one, entry, who="moderator")
    player.ask("featured, gone twice", "DELETE", one, entry, who="moderator")
    player.ask("a store's page", "GET", "/api/vendors/profile/:vendorId", STORE_2)
