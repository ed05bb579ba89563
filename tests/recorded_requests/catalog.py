"""The catalog: listings, search, products, moderation and pictures."""

from typing import Any

from tests.recorded_requests.market import STORE, STORE_2, first, picture
from tests.recorded_requests.player import UNKNOWN_ID, Answer, Player

_LISTINGS: tuple[tuple[str, dict[str, str]], ...] = (
    ("all", {}),
    ("category", {"category": "phone-accessories", "sort": "price_asc"}),
    ("prices", {"minPrice": "100000", "maxPrice": "300000", "sort": "price_desc"}),
    ("condition", {"condition": "like_new", "limit": "5"}),
    ("campus", {"campus": "south", "inStock": "true", "limit": "5"}),
    ("vendor", {"vendor": STORE_2, "sort": "rating", "limit": "5"}),
    ("popular", {"sort": "popular", "limit": "5"}),
    ("no such campus", {"campus": "nowhere"}),
    ("no such category", {"category": "nothing"}),
    ("bad prices", {"minPrice": "5", "maxPrice": "1"}),
    ("bad price", {"minPrice": "1.5"}),
    ("bad vendor", {"vendor": "x"}),
    ("bad condition", {"condition": "broken"}),
)
_SEARCHES: tuple[tuple[str, dict[str, str]], ...] = (
    ("word", {"q": "calculator"}),
    ("typo", {"q": "calculater", "limit": "5"}),
    ("store", {"q": "ngozi", "limit": "3"}),
    ("filters", {"q": "shirt", "maxPrice": "900000", "campus": "north", "limit": "5"}),
    ("nothing", {"q": "zzxqwv"}),
    ("too short", {"q": "a"}),
    ("none", {}),
)


def play(player: Player) -> None:
    """Read and change the catalog."""
    _read(player)
    _search(player)
    image = _pictures(player)
    _products(player, image)
    _moderation(player)
    _statistics(player)


def _read(player: Player) -> None:
    for name, query in _LISTINGS:
        player.ask(f"products, {name}", "GET", "/api/products", query=query)
    player.ask("categories", "GET", "/api/products/categories")
    for path in ("new-arrivals", "exclusives", "featured"):
        player.ask(
            f"products, {path}", "GET", f"/api/products/{path}", query={"limit": "5", "campus": "north"}
        )
    some = [
        card["id"]
        for card in player.fetch("GET", "/api/products", query={"limit": "3", "vendor": STORE}).get(
            default=[]
        )
    ]
    player.ask("products in bulk", "POST", "/api/products/bulk", body={"ids": [*some, UNKNOWN_ID]})
    player.ask("products in bulk, a list", "POST", "/api/products/bulk", body=some[:1])
    player.ask("products in bulk, bad", "POST", "/api/products/bulk", body={"ids": ["x"]})
    player.ask("products in bulk, too many", "POST", "/api/products/bulk", body={"ids": [UNKNOWN_ID] * 101})
    for who in (None, "buyer", "vendor", "vendor2", "moderator"):
        player.ask(f"product of {who}", "GET", "/api/products/:productId", *some[:1], who=who)
        player.ask(
            f"a store's products for {who}",
            "GET",
            "/api/products/vendor/:vendorId",
            STORE,
            who=who,
            query={"limit": "4"},
        )
    player.ask(
        "own inventory",
        "GET",
        "/api/products/vendor/paginated",
        who="vendor",
        query={"limit": "5", "page": "1"},
    )
    player.ask("own inventory, sorted", "GET", "/api/products/vendor/paginated", who="vendor",
               query={"limit": "5", "sort": "priceMinor", "order": "asc", "status": "published", "lowStock": "true", "lowStockAt": "20"})  # fmt: skip
    player.ask(
        "own inventory, found",
        "GET",
        "/api/products/vendor/paginated",
        who="vendor",
        query={"q": "calculator"},
    )
    paged = player.ask(
        "own inventory by cursor",
        "GET",
        "/api/products/vendor/paginated",
        who="vendor",
        query={"limit": "2", "cursor": "x"},
    )
    player.ask("own inventory, both ways", "GET", "/api/products/vendor/paginated", who="vendor",
               query={"page": "1", "cursor": str(paged.meta("next_cursor"))})  # fmt: skip


def _search(player: Player) -> None:
    for name, query in _SEARCHES:
        player.ask(f"search, {name}", "GET", "/api/products/search", query=query)
        player.ask(f"suggestions, {name}", "GET", "/api/products/suggestions", query=query)
    path = "/api/products/search/synonyms"
    player.ask("synonyms", "GET", path, who="moderator", query={"limit": "5"})
    made = player.ask(
        "synonyms, made", "POST", path, who="moderator", body={"terms": ["Quilzap", "calculator"]}
    )
    player.ask(
        "synonyms, made again", "POST", path, who="moderator", body={"terms": ["quilzap", "calculator"]}
    )
    player.ask("synonyms, one alone", "POST", path, who="moderator", body={"terms": ["one"]})
    player.ask("synonyms, empty terms", "POST", path, who="moderator", body={"terms": ["", "!!"]})
    player.ask(
        "synonyms, changed",
        "PUT",
        f"{path}/:synonymsId",
        made.id(),
        who="moderator",
        body={"terms": ["quilzap", "calculator", "quilzop"], "revision": 1},
    )
    player.ask(
        "synonyms, stale",
        "PUT",
        f"{path}/:synonymsId",
        made.id(),
        who="moderator",
        body={"terms": ["a1", "b1"], "revision": 1},
    )
    player.ask("search, by synonym", "GET", "/api/products/search", query={"q": "quilzap", "limit": "3"})
    player.ask("synonyms, gone", "DELETE", f"{path}/:synonymsId", made.id(), who="moderator")
    player.ask("synonyms, gone twice", "DELETE", f"{path}/:synonymsId", made.id(), who="moderator")


def _pictures(player: Player) -> str:
    path = "/api/products/images"
    taken = player.ask(
        "picture", "POST", path, who="vendor", files={"file": ("a.png", picture(), "image/png")}
    )
    player.ask(
        "picture of staff", "POST", path, who="moderator", files={"file": ("a.png", picture(90), "image/png")}
    )
    player.ask(
        "picture, misnamed", "POST", path, who="vendor", files={"file": ("a.gif", picture(20), "image/gif")}
    )
    player.ask(
        "picture, none", "POST", path, who="vendor", files={"other": ("a.png", picture(), "image/png")}
    )
    player.ask(
        "picture, two",
        "POST",
        path,
        who="vendor",
        files=[("file", ("a.png", picture(), "image/png")), ("file", ("b.png", picture(), "image/png"))],
    )
    player.ask(
        "picture, text", "POST", path, who="vendor", files={"file": ("a.png", b"words, words", "image/png")}
    )
    player.ask(
        "picture, broken", "POST", path, who="vendor", files={"file": ("a.png", picture()[:60], "image/png")}
    )
    player.ask("picture, empty", "POST", path, who="vendor", files={"file": ("a.png", b"", "image/png")})
    player.ask(
        "picture, bomb",
        "POST",
        path,
        who="vendor",
        files={"file": ("a.png", picture(7, 12_000), "image/png")},
    )
    player.ask(
        "picture, too large",
        "POST",
        path,
        who="vendor",
        files={"file": ("a.png", picture() + b"0" * 6_000_000, "image/png")},
    )
    player.ask("picture, JSON", "POST", path, who="vendor", body={})
    player.ask(
        "picture, for a buyer", "POST", path, who="buyer", files={"file": ("a.png", picture(), "image/png")}
    )
    return taken.id()


def _product(category: str, **more: Any) -> dict[str, Any]:
    return {"title": "Recorded reading lamp", "description": "Bright, and bends.", "priceMinor": 350_000,
            "categoryId": category, "condition": "new", "quantity": 30, **more}  # fmt: skip


def _category(player: Player) -> str:
    card = player.fetch("GET", "/api/products", query={"vendor": STORE, "limit": "1"})
    return first(card, "categoryId")


def _wait_until_screened(player: Player, what: str, product: str, who: str = "vendor") -> None:
    """Wait until a listing is screened."""
    player.wait(
        f"{what} is screened",
        lambda: (
            (shown := player.fetch("GET", "/api/products/:id", product, who=who)).get("status") != "in_review"
            or shown.get("reviewState") == "held"
        ),
    )


def _products(player: Player, image: str) -> None:
    path, one = "/api/products", "/api/products/:productId"
    category = _category(player)
    made = player.ask(
        "product, made",
        "POST",
        path,
        who="vendor",
        body=_product(category, imageIds=[image], tags=["lamp", "Reading"]),
    )
    product = made.id()
    _wait_until_screened(player, "the product", product)
    for who in ("vendor", None, "buyer", "moderator"):
        player.ask(f"product, screened, for {who}", "GET", one, product, who=who)
    draft = player.ask(
        "product, draft",
        "POST",
        path,
        who="vendor",
        body=_product(category, status="draft", title="Draft lamp"),
    )
    player.ask("product, draft for others", "GET", one, draft.id())
    player.ask("product of staff, no store", "POST", path, who="moderator", body=_product(category))
    player.ask(
        "product of staff",
        "POST",
        path,
        who="moderator",
        body=_product(category, vendorId=STORE_2, status="draft"),
    )
    player.ask(
        "product of staff, unknown store",
        "POST",
        path,
        who="moderator",
        body=_product(category, vendorId=UNKNOWN_ID),
    )
    player.ask(
        "product for another store", "POST", path, who="vendor", body=_product(category, vendorId=STORE_2)
    )
    bad: dict[str, dict[str, Any]] = {
        "category": {"categoryId": UNKNOWN_ID}, "price": {"priceMinor": 99}, "price as text": {"priceMinor": "100"},
        "title": {"title": "ab"}, "quantity": {"quantity": -1}, "condition": {"condition": "used"}, "image": {"imageIds": [UNKNOWN_ID]},
        "images": {"imageIds": [image, image]}, "tags": {"tags": [str(n) for n in range(11)]}, "status": {"status": "removed"},
    }  # fmt: skip
    for name, more in bad.items():
        player.ask(f"product, bad {name}", "POST", path, who="vendor", body=_product(category, **more))
    player.ask(
        "product, changed",
        "PUT",
        one,
        product,
        who="vendor",
        body={"quantity": 25, "revision": _revision(player, product)},
    )
    player.ask("product, stale", "PUT", one, product, who="vendor", body={"quantity": 24, "revision": 1})
    player.ask(
        "product, stale by header",
        "PUT",
        one,
        product,
        who="vendor",
        body={"quantity": 24},
        headers={"If-Match": '"1"'},
    )
    player.ask("product, another's", "PUT", one, product, who="vendor2", body={"quantity": 1})
    player.ask("product, paused", "PUT", one, product, who="vendor", body={"status": "paused"})
    player.ask("product, paused for others", "GET", one, product)
    player.ask("product, resumed", "PUT", one, product, who="vendor", body={"status": "published"})
    player.ask("product, back to draft", "PUT", one, product, who="vendor", body={"status": "draft"})
    player.ask(
        "product, revised",
        "PUT",
        one,
        product,
        who="vendor",
        body={"title": "Recorded reading lamp, bent", "priceMinor": 360_000},
    )
    _wait_until_screened(player, "the revision", product)
    player.ask("product, revised and screened", "GET", one, product, who="vendor")
    player.ask("product, nothing changed", "PUT", one, product, who="vendor", body={})
    player.ask("draft, submitted", "PUT", one, draft.id(), who="vendor", body={"status": "published"})
    _wait_until_screened(player, "the draft", draft.id())
    player.ask("product, another's, deleted", "DELETE", one, draft.id(), who="vendor2")
    player.ask("product, deleted", "DELETE", one, draft.id(), who="vendor")
    player.ask("product, deleted twice", "DELETE", one, draft.id(), who="vendor")
    player.ask("product, deleted, read", "GET", one, draft.id(), who="vendor")
    player.ask("product, deleted by staff without permission", "DELETE", one, product, who="support")
    extra = player.ask(
        "product, for bulk",
        "POST",
        path,
        who="vendor",
        body=_product(category, status="draft", title="Bulk lamp"),
    )
    player.ask(
        "products, deleted in bulk",
        "DELETE",
        "/api/products/bulk/delete",
        who="moderator",
        body={"ids": [extra.id(), UNKNOWN_ID], "reason": "Not allowed here"},
    )
    player.ask(
        "products, deleted in bulk, none",
        "DELETE",
        "/api/products/bulk/delete",
        who="moderator",
        body={"ids": []},
    )


def _revision(player: Player, product: str) -> int:
    return int(player.fetch("GET", "/api/products/:id", product, who="vendor").get("revision", default=1))


def _moderation(player: Player) -> None:
    path, terms = "/api/products/moderation", "/api/products/moderation/banned-terms"
    player.ask("banned terms", "GET", terms, who="moderator", query={"limit": "3"})
    term = player.ask("banned term, made", "POST", terms, who="moderator",
                      body={"term": "Zorkblade", "category": "weapon", "exceptions": ["zorkblade poster"], "note": "Sharp"})  # fmt: skip
    player.ask(
        "banned term, made twice",
        "POST",
        terms,
        who="moderator",
        body={"term": "zorkblade", "category": "weapon"},
    )
    player.ask("banned term, bad", "POST", terms, who="moderator", body={"term": "!", "category": "fun"})
    category = _category(player)
    held: list[Answer] = []
    for number in range(4):
        made = player.ask(
            f"doubtful {number}",
            "POST",
            "/api/products",
            who="vendor",
            body=_product(category, title=f"Zorkblade {number}"),
        )
        _wait_until_screened(player, f"doubtful {number}", made.id())
        held.append(made)
    player.ask("doubtful, for its owner", "GET", "/api/products/:productId", held[0].id(), who="vendor")
    for status in ("held", "screening", "rejected", "removed"):
        player.ask(f"moderation, {status}", "GET", path, who="moderator", query={"status": status})
    player.ask("moderation, of a campus", "GET", path, who="moderator", query={"campus": "south"})
    one = "/api/products/:productId"
    player.ask(
        "approve, stale", "POST", f"{one}/approve", held[0].id(), who="moderator", body={"revision": 99}
    )
    player.ask("approve", "POST", f"{one}/approve", held[0].id(), who="moderator", body={"note": "A toy"})
    player.ask("approve twice", "POST", f"{one}/approve", held[0].id(), who="moderator", body={})
    player.ask(
        "reject", "POST", f"{one}/reject", held[1].id(), who="moderator", body={"reason": "A blade after all"}
    )
    player.ask(
        "reject twice",
        "POST",
        f"{one}/reject",
        held[1].id(),
        who="moderator",
        body={"reason": "A blade after all"},
    )
    player.ask("rejected, for its owner", "GET", one, held[1].id(), who="vendor")
    player.ask("reject without a reason", "POST", f"{one}/reject", held[2].id(), who="moderator", body={})
    player.ask(
        "take down",
        "POST",
        f"{one}/takedown",
        held[0].id(),
        who="moderator",
        body={"reason": "Complaints came"},
    )
    player.ask(
        "take down twice",
        "POST",
        f"{one}/takedown",
        held[0].id(),
        who="moderator",
        body={"reason": "Complaints came"},
    )
    player.ask("taken down, for its owner", "GET", one, held[0].id(), who="vendor")
    player.ask(
        "taken down, changed by its owner",
        "PUT",
        one,
        held[0].id(),
        who="vendor",
        body={"status": "published"},
    )
    player.ask("taken down, for all", "GET", one, held[0].id())
    player.ask("restore", "POST", f"{one}/approve", held[0].id(), who="moderator", body={})
    player.ask("rejected, deleted by staff", "DELETE", one, held[1].id(), who="moderator")
    player.ask("moderation, removed at last", "GET", path, who="moderator", query={"status": "removed"})
    player.ask("banned term, gone", "DELETE", f"{terms}/:termId", term.id(), who="moderator")
    player.ask("banned term, gone twice", "DELETE", f"{terms}/:termId", term.id(), who="moderator")
    player.ask("delete what is held", "DELETE", one, held[2].id(), who="vendor")


def _statistics(player: Player) -> None:
    product = first(
        player.fetch("GET", "/api/products", query={"vendor": STORE, "sort": "price_asc", "limit": "1"})
    )
    for kind in ("view", "cart_add", "share", "other"):
        for who in (None, "buyer", "vendor"):
            player.ask(
                f"count {kind} of {who}",
                "POST",
                "/api/products/:productId/stats/:type",
                product,
                kind,
                who=who,
            )
    player.ask("count for nothing", "POST", "/api/products/:productId/stats/:type", UNKNOWN_ID, "view")
    player.run_task("flush-statistics")
    player.ask("trending", "GET", "/api/products/trending", query={"limit": "3"})
    player.ask(
        "trending of a category", "GET", "/api/products/trending", query={"category": "phone-accessories"}
    )
    player.ask("counted, for its owner", "GET", "/api/products/:productId", product, who="vendor")
    player.ask("search misses", "GET", "/api/products/search/misses", who="moderator")
    player.ask(
        "search misses, for a store",
        "GET",
        "/api/products/search/misses",
        who="vendor",
        query={"sort": "query", "order": "asc"},
    )
