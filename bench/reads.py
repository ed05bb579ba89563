"""Parts that read: product listing, product detail, search and suggestions."""

import http.client
import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import redis

from bench import data, floors
from bench.data import row_id
from bench.figures import Target
from bench.load import Call, request
from bench.parts import Part, Side, http_side
from bench.recording import Recorded
from bench.stand import Stand
from bench.statements import Floor, floor_of
from sandbox.ports import HOST

LISTING = "/api/products"
SEARCH = f"{LISTING}/search"
SUGGESTIONS = f"{LISTING}/suggestions"
# Prices that occur nowhere else in the recorded SQL.
_RECORDED_PRICES = (1_234_567, 2_234_567)
_CATEGORY = "category-8"
_PRICE_BAND = 1_000_000
# A page that must be as fast as the first, and the number of pages requested near that page and near the first.
_DEEP = 500
_NEAR = 50
_SEED = 5
_ANSWER_SECONDS = 10


class AnswerError(Exception):
    """The application's response has an unexpected status."""


@dataclass(frozen=True)
class Page:
    """A page of the listing: its cursor, and the sort value and id of the preceding row."""

    cursor: str
    value: str
    last_id: str


def walk_listing(stand: Stand, *, most: int) -> list[Page]:
    """Page through the listing as clients do, and return the position of each page."""
    pages: list[Page] = []
    cursor = ""
    while len(pages) < most:
        answer = json.loads(
            _fetch(stand, f"{LISTING}?{urlencode({'cursor': cursor})}" if cursor else LISTING)
        )
        cursor = answer["meta"]["next_cursor"]
        if cursor is None:
            break
        last = answer["data"][-1]
        pages.append(Page(cursor, last["publishedAt"], last["id"]))
    return pages


def _fetch(stand: Stand, target: str) -> bytes:
    """Request a path from the application and return the response body.

    :raises AnswerError: the status is not 200
    """
    connection = http.client.HTTPConnection(HOST, stand.ports["web"], timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise AnswerError(f"{target} returned {answer.status}: {body[:500]!r}")
    return body


def recorded_calls(page: Page, other: Page) -> dict[str, list[tuple[str, str, dict[str, str], str]]]:
    """Return the calls that record the SQL of the listing floors, two for each floor.

    :param page: a page of the listing
    :param other: another page
    """
    low, high = _RECORDED_PRICES
    return {
        "page": [("GET", f"{LISTING}?cursor={one.cursor}", {}, "") for one in (other, page)],
        "filtered": [("GET", _filtered(low + step, high + step), {}, "") for step in (1, 0)],
    }


def page_floor(recorded: Recorded, page: Page) -> Floor:
    """Build the floor of listing pages from the recorded SQL of a page."""
    # The driver writes the time exactly as given in the position.
    return floor_of(recorded, {page.value: "value", page.last_id: "last_id"})


def filtered_floor(recorded: Recorded) -> Floor:
    """Build the floor of filtered listings from the recorded SQL of a request."""
    low, high = _RECORDED_PRICES
    return floor_of(recorded, {str(low): "low", str(high): "high"})


def _filtered(low: int, high: int) -> str:
    return f"{LISTING}?{urlencode({'category': _CATEGORY, 'minPrice': low, 'maxPrice': high})}"


def _price_bands(seed: int) -> Iterator[tuple[int, int]]:
    numbers = random.Random(seed)
    while True:
        low = numbers.randrange(10_000, 4_000_000)
        yield low, low + _PRICE_BAND


def _searches(seed: int) -> Iterator[Call]:
    """Generate searches for rare and common words, misspelled words, filters, and words without results."""
    numbers = random.Random(seed)
    while True:
        thing, brand = numbers.choice(data.THINGS), numbers.choice(data.BRANDS)
        common = numbers.choice(data.QUALITIES)
        given = numbers.choice(
            (
                {"q": f"model {numbers.randrange(50_000)}"},
                {"q": thing},
                {"q": f"{brand} {thing}"},
                {"q": f"{common} {thing}"},
                {"q": common},
                {"q": "campus"},
                {"q": "used with cover"},
                {"q": thing[: max(3, len(thing) // 2)]},
                {"q": _misspelled(thing, numbers)},
                {"q": thing, "category": _CATEGORY},
                {"q": common, "minPrice": 100_000, "maxPrice": 900_000, "condition": "new"},
                {"q": f"xq{numbers.randrange(10_000)}zz"},
            )
        )
        yield Call("", request("GET", f"{SEARCH}?{urlencode(given)}"))


def _misspelled(words: str, numbers: random.Random) -> str:
    """Swap two adjacent letters, a common typing error."""
    at = numbers.randrange(1, len(words) - 1)
    return f"{words[: at - 1]}{words[at]}{words[at - 1]}{words[at + 1 :]}"


def _prefixes() -> list[str]:
    """List the prefixes, one to four letters long, of all words in titles."""
    words = " ".join((*data.QUALITIES, *data.BRANDS, *data.THINGS)).lower().split()
    return sorted({word[:length] for word in words for length in range(1, 5)})


class Reads:
    """A builder of the parts that read."""

    def __init__(self, stand: Stand, *, clients: int, products: int, pages: list[Page]) -> None:
        self._stand = stand
        self._clients = clients
        self._products = products
        self._in_order = pages
        self._pages = random.Random(_SEED).sample(pages, len(pages))

    def parts(self) -> list[Part]:
        """Build all parts."""
        return [
            self._reference(),
            self._cached(),
            self._page(),
            self._deep(),
            self._filtered(),
            self._detail(),
            self._search(),
            self._suggestions(),
        ]

    def mixed(self, *, most: int) -> Iterator[Call]:
        """Generate mixed read requests, mostly for uncached content.

        :param most: number of requests
        """
        kinds = (
            self._uncached(self._pages),
            self._bands(_SEED),
            self._details(LISTING + "/{}"),
            _searches(_SEED),
        )
        return itertools.islice(itertools.chain.from_iterable(zip(*kinds, strict=True)), most)

    def _side(self, title: str, server: str, calls: Callable[[], Iterator[Call]]) -> Side:
        return http_side(self._stand, title, server=server, calls=calls, clients=self._clients)

    def _same(self, title: str, server: str, target: str) -> Side:
        call = Call("", request("GET", target))
        return self._side(title, server, lambda: itertools.repeat(call))

    def _reference(self) -> Part:
        return Part(
            "reference",
            None,
            (
                self._same("bare WSGI constant", "floors", "/constant"),
                self._same("empty Flask route", "floors", "/flask"),
            ),
        )

    def _cached(self) -> Part:
        content = _fetch(self._stand, LISTING)

        def floor() -> Iterator[Call]:
            # Set the content for each round, because other parts empty the cache.
            with redis.Redis.from_url(self._stand.cache.url, socket_timeout=5) as client:
                client.set(floors.CONTENT_KEY, content)
            return itertools.repeat(Call("", request("GET", "/cache")))

        return Part(
            "listing-cached",
            self._same("listing, cached", "web", LISTING),
            (self._side("the same bytes from the cache", "floors", floor),),
            Target(share=0.5, better=0.6),
        )

    def _page(self) -> Part:
        def floor() -> Iterator[Call]:
            for page in itertools.cycle(self._pages):
                target = f"/statements?page&value={page.value}&last_id={page.last_id}"
                yield Call("", request("GET", target))

        return Part(
            "listing-page",
            self._side("listing, any page, uncached", "web", self.listing),
            (self._side("the same SQL and JSON, bare", "floors", floor),),
            Target(share=0.40, better=0.45, p95_ms=12),
        )

    def listing(self) -> Iterator[Call]:
        """Generate requests for random, uncached pages of the listing."""
        return self._uncached(self._pages)

    def _uncached(self, pages: list[Page]) -> Iterator[Call]:
        """Request each page once, then empty the cache and repeat. No page is ever cached."""
        while True:
            self._stand.empty_cache()
            for page in pages:
                yield Call("", request("GET", f"{LISTING}?cursor={page.cursor}"))

    def _deep(self) -> Part:
        # A small catalog has fewer pages: use the last ones.
        deep_end = min(_DEEP + _NEAR, len(self._in_order))
        first, deep = self._in_order[:_NEAR], self._in_order[deep_end - 2 * _NEAR : deep_end]
        return Part(
            "listing-deep",
            self._side(f"listing, around page {_DEEP}", "web", lambda: self._uncached(deep)),
            (self._side("first pages, uncached", "web", lambda: self._uncached(first)),),
            Target(share=0.95),
        )

    def _filtered(self) -> Part:
        # Each round has another seed, so that no round repeats cached requests of an earlier round.
        seeds = itertools.count(_SEED)

        def floor() -> Iterator[Call]:
            for low, high in _price_bands(_SEED):
                yield Call("", request("GET", f"/statements?filtered&low={low}&high={high}"))

        return Part(
            "listing-filtered",
            self._side("listing, category and prices, uncached", "web", lambda: self._bands(next(seeds))),
            (self._side("the same SQL and JSON, bare", "floors", floor),),
            Target(share=0.40, better=0.45, p95_ms=12),
        )

    def _bands(self, seed: int) -> Iterator[Call]:
        for low, high in _price_bands(seed):
            yield Call("", request("GET", _filtered(low, high)))

    def _details(self, form: str) -> Iterator[Call]:
        numbers = random.Random(_SEED)
        while True:
            product = row_id("product", numbers.randrange(self._products))
            yield Call("", request("GET", form.format(product)))

    def _detail(self) -> Part:
        return Part(
            "detail",
            self._side("product detail", "web", lambda: self._details(LISTING + "/{}")),
            (self._side("one row, bare", "floors", lambda: self._details("/row?{}")),),
            Target(share=0.3, p95_ms=12),
        )

    def _search(self) -> Part:
        return Part(
            "search",
            self._side("search", "web", lambda: _searches(_SEED)),
            (self._side("one row, bare", "floors", lambda: self._details("/row?{}")),),
            Target(p95_ms=20),
        )

    def _suggestions(self) -> Part:
        def uncached() -> Iterator[Call]:
            while True:
                self._stand.empty_cache()
                for prefix in _prefixes():
                    yield Call("", request("GET", f"{SUGGESTIONS}?{urlencode({'q': prefix})}"))

        return Part(
            "suggestions",
            self._side("suggestions, uncached", "web", uncached),
            (self._side("one row, bare", "floors", lambda: self._details("/row?{}")),),
            Target(p95_ms=20),
        )
