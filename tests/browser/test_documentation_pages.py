"""The API's documentation and error pages in a real browser."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser, Locator, Page, Request, expect, sync_playwright
from werkzeug.serving import WSGIRequestHandler, make_server

from blueprints.areas import AREAS, contracts
from blueprints.http.documentation.operations import documented_path
from blueprints.http.problems import error_slug
from marketplace.kernel.errors import CATALOG

CHROMIUM = Path("/usr/bin/chromium")
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 320, "height": 640}
TIMEOUT_MILLISECONDS = 20_000
# The page reads the complete document at start, which is slow beside other tests.
expect.set_options(timeout=TIMEOUT_MILLISECONDS)

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"no browser at {CHROMIUM}; on Debian: apt-get install chromium"
)


class QuietHandler(WSGIRequestHandler):
    """Request handler without access logs."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Log nothing."""


@pytest.fixture(scope="module")
def address(app: Flask) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield one
        one.close()


class Visit:
    """A page that collects all console complaints."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.requested_urls: list[str] = []
        page.set_default_timeout(TIMEOUT_MILLISECONDS)
        page.on("console", self._note_console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._note_request)
        page.on("requestfailed", self._note_failure)

    def _note_console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _note_failure(self, request: Request) -> None:
        # The icon is fetched after the load event, so the next navigation may abort that fetch.
        if request.failure != "net::ERR_ABORTED":
            self.complaints.append(f"{request.failure}: {request.url}")

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith("data:"):
            self.requested_urls.append(request.url)

    def go(self, path: str) -> int:
        """Open a path and return the status of the response."""
        response = self.page.goto(f"{self.address}{path}")
        assert response is not None
        return response.status

    def fits(self) -> bool:
        """Return whether the page fits without horizontal scrolling."""
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        )


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Callable[..., Visit]]:
    visits: list[Visit] = []

    def make(**options: Any) -> Visit:
        context = browser.new_context(**{"viewport": WIDE} | options)
        visits.append(Visit(context.new_page(), address))
        return visits[-1]

    yield make
    for one in visits:
        complaints, requested_urls = one.complaints, one.requested_urls
        one.page.context.close()
        assert complaints == []
        assert all(url.startswith(f"{address}/") for url in requested_urls), (
            "the page sends a request to another server"
        )


def test_documentation_lists_every_operation(visit: Callable[..., Visit]) -> None:
    docs = visit()
    assert docs.go("/docs") == 200
    page = docs.page
    expect(page).to_have_title("Campus Marketplace API")
    expect(page.get_by_role("heading", name="Campus Marketplace")).to_be_visible()
    expect(page.locator(".opblock-tag").first).to_be_visible()
    shown = set()
    for area in AREAS:
        # The page renders only operations near the visible part, so one tag is unfolded at a time.
        tag = page.locator(f'.opblock-tag[data-tag="{area.name}"]')
        tag.click()
        expect(page.locator(".opblock")).to_have_count(len(area.contracts))
        methods = page.locator(".opblock-summary-method").all_inner_texts()
        # The page inserts an invisible character at possible line breaks of a path.
        paths = [
            path.replace("\u200b", "").strip()
            for path in page.locator(".opblock-summary-path").all_inner_texts()
        ]
        shown |= set(zip(methods, paths, strict=True))
        tag.click()
        expect(page.locator(".opblock")).to_have_count(0)
    assert shown == {(contract.method, documented_path(contract)) for contract in contracts()}


def open_operation(page: Page, tag: str, path: str) -> Locator:
    """Unfold a tag and the first GET operation with a path, and return the operation's block."""
    page.locator(f'.opblock-tag[data-tag="{tag}"]').click()
    page.locator(".opblock-get", has_text=path).first.click()
    return page.locator(".opblock.is-open")


def test_expanded_operation_shows_parameters_and_responses(visit: Callable[..., Visit]) -> None:
    docs = visit()
    docs.go("/docs")
    block = open_operation(docs.page, "catalog", "/api/products/{productId}")
    expect(block.get_by_role("heading", name="Parameters")).to_be_visible()
    expect(block.locator(".responses-table").first).to_contain_text("200")
    expect(block.locator(".responses-table").first).to_contain_text("RESOURCE_NOT_FOUND")


def test_operation_can_be_tried_out_in_the_documentation(visit: Callable[..., Visit]) -> None:
    docs = visit()
    docs.go("/docs")
    block = open_operation(docs.page, "health", "/health/live")
    block.get_by_role("button", name="Try it out").click()
    block.get_by_role("button", name="Execute").click()
    expect(block.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    expect(block.locator(".live-responses-table")).to_contain_text('"live"')


def test_documentation_without_scripts_links_to_the_openapi_document(visit: Callable[..., Visit]) -> None:
    docs = visit(java_script_enabled=False)
    docs.go("/docs")
    docs.page.get_by_role("link", name="/openapi.json").click()
    expect(docs.page).to_have_url(f"{docs.address}/openapi.json")


def test_each_error_is_explained_on_a_narrow_screen_without_scripts(visit: Callable[..., Visit]) -> None:
    explained = visit(viewport=NARROW, java_script_enabled=False, color_scheme="dark")
    page = explained.page
    for code, entry in sorted(CATALOG.items()):
        assert explained.go(f"/errors/{error_slug(code)}") == 200
        expect(page).to_have_title(f"{code} · Campus Marketplace API")
        expect(page.get_by_role("heading", name=code, level=1)).to_be_visible()
        expect(page.get_by_text(entry.title, exact=True)).to_be_visible()
        expect(page.get_by_text(entry.meaning)).to_be_visible()


def test_error_page_fits_narrow_screen_and_links_to_documentation(
    visit: Callable[..., Visit],
) -> None:
    explained = visit(viewport=NARROW)
    explained.go("/errors/service-unavailable")
    page = explained.page
    assert explained.fits()
    # The page's content security policy admits the page's own style.
    assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "640px"
    page.get_by_role("link", name="API documentation").click()
    expect(page).to_have_url(f"{explained.address}/docs")
    expect(page.locator(".opblock-tag").first).to_be_visible()
