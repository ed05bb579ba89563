"""The API's documentation and error pages in a real browser."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import jwt
import pytest
from axe_playwright_python.sync_playwright import Axe
from flask import Flask
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright
from sqlalchemy import delete
from sqlalchemy.orm import Session
from werkzeug.serving import WSGIRequestHandler, make_server

from blueprints.areas import AREAS, contracts
from blueprints.http.application import build_app
from blueprints.http.documentation.operations import documented_path
from blueprints.http.problems import error_slug
from marketplace.audit.operations import Act
from marketplace.health.incidents import open_incident
from marketplace.health.models import Incident, IncidentNote
from marketplace.kernel.errors import CATALOG
from marketplace.services import Services
from sandbox.personas import persona_named
from sandbox.providers.server import ProvidersServer
from tests.support.probes import changed
from tests.support.purchases import NOW, make_person

CHROMIUM = Path("/usr/bin/chromium")
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 320, "height": 640}
PHONE = {"width": 375, "height": 740}
OPERATION = "tag/catalog/GET/api/products/{productId}"
PROFILE = "tag/users/GET/api/users/me"
LOCAL_ORIGINS = ("http://127.0.0.1:*",)
PROBE = "tag/health/GET/health/live"
OPERATION_LINK = re.compile(r"#tag/[^/]+/(GET|POST|PUT|PATCH|DELETE)(/.*)")
FINISHED_TRANSITIONS = """
    () => Promise.allSettled(
        document.getAnimations()
            .filter(one => Number.isFinite(one.effect?.getComputedTiming().endTime))
            .map(one => one.finished))
"""
TITLE = "Bank transfers arrive late"
TIMEOUT_MILLISECONDS = 90_000
# The page reads and draws the complete document at start, which takes tens of seconds beside other tests.
expect.set_options(timeout=TIMEOUT_MILLISECONDS)

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"no browser at {CHROMIUM}; on Debian: apt-get install chromium"
)


class QuietHandler(WSGIRequestHandler):
    """Request handler without access logs."""

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - the parent's name
        """Log nothing."""


@contextmanager
def serving(app: Flask) -> Iterator[str]:
    """Serve an application and yield the address."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=QuietHandler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def address(app: Flask) -> Iterator[str]:
    with serving(app) as address:
        yield address


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


def open_documentation(visit: Callable[..., Visit], fragment: str = "", **options: Any) -> Page:
    """Open the documentation and wait for the library."""
    docs = visit(**options)
    assert docs.go(f"/docs{fragment}") == 200
    page = docs.page
    expect(page).to_have_title("Campus Marketplace API")
    expect(page.get_by_role("heading", name="Campus Marketplace", level=1)).to_be_visible()
    expect(page.locator("#opening")).to_have_count(0)
    return page


def announce_incident(session: Session) -> UUID:
    officer = make_person(session, role="staff", staff_role="admin")
    return open_incident(
        session,
        act=Act("admin", NOW, user_id=officer.id),
        title=TITLE,
        impact="major",
        components=["payments"],
        message="Payments by bank transfer arrive up to an hour late.\nCard payments are not affected.",
    ).incident.id


def delete_incident(session: Session, incident_id: UUID) -> None:
    session.execute(delete(IncidentNote).where(IncidentNote.incident_id == incident_id))
    session.execute(delete(Incident).where(Incident.id == incident_id))


def assert_accessible(page: Page) -> None:
    """Check that axe finds no serious and no critical violation."""
    # A text that still fades in or out has too little contrast for a moment.
    page.evaluate(FINISHED_TRANSITIONS)
    found = Axe().run(page).response["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in grave] == []


def test_documentation_lists_every_operation_in_groups(visit: Callable[..., Visit]) -> None:
    page = open_documentation(visit)
    sidebar = page.get_by_role("complementary", name="Sidebar for Campus Marketplace")
    closed = sidebar.locator("[aria-expanded=false]")
    while closed.count():
        closed.first.click()
    links = sidebar.locator("a").evaluate_all("links => links.map(link => decodeURI(link.hash))")
    listed = {match.groups() for link in links if (match := OPERATION_LINK.fullmatch(link))}
    assert listed == {(contract.method, documented_path(contract)) for contract in contracts()}


def test_search_finds_an_operation_by_its_path(visit: Callable[..., Visit]) -> None:
    page = open_documentation(visit)
    page.get_by_role("button", name="Open Search").click()
    page.get_by_role("combobox", name="Enter search query").fill("verify code")
    found = page.get_by_role("option").filter(has_text="/api/orders/{orderId}/verify-code")
    expect(found).to_be_visible()
    assert_accessible(page)
    found.click()
    expect(page).to_have_url(re.compile("verify-code$"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_documented_operation_is_accessible_and_shows_request_and_responses(
    visit: Callable[..., Visit], scheme: str
) -> None:
    page = open_documentation(visit, f"#{OPERATION}", color_scheme=scheme)
    operation = page.locator(f'[id$="{OPERATION}"]').first
    expect(operation).to_contain_text("productId")
    expect(operation).to_contain_text("RESOURCE_NOT_FOUND")
    assert_accessible(page)


def test_request_can_be_tried_in_the_documentation(visit: Callable[..., Visit]) -> None:
    page = open_documentation(visit, f"#{PROBE}")
    page.locator(f'[id$="{PROBE}"]').get_by_role("button", name=re.compile("Test Request")).click()
    client = page.get_by_role("dialog", name="API Client")
    client.get_by_role("button", name="Send get request").click()
    expect(client.get_by_text("200 OK")).to_be_visible()
    expect(client).to_contain_text("live")
    assert_accessible(page)


def test_requests_use_the_token_of_the_chosen_persona(
    browser: Browser, services: Services, tmp_path: Path
) -> None:
    with (
        ProvidersServer(
            "127.0.0.1", 0, tmp_path, secret_key="sk_test_x", cors_origins=LOCAL_ORIGINS
        ) as providers,
        serving(
            build_app(
                changed(services, environment="embedded", identity_issuer=providers.identity_issuer), AREAS
            )
        ) as address,
    ):
        page = browser.new_page(viewport=WIDE)
        page.goto(f"{address}/docs#{PROFILE}")
        expect(page.locator("#opening")).to_have_count(0)
        expect(page.get_by_text("Try without a token")).to_be_visible()
        page.locator("#personas summary").click()
        assert_accessible(page)
        page.get_by_role("button", name="vendor", exact=True).click()
        expect(page.get_by_text("Requests now use the token of vendor.")).to_be_visible()
        expect(page.get_by_text("Try as vendor")).to_be_visible()
        page.locator("#personas summary").click()
        page.locator(f'[id$="{PROFILE}"]').get_by_role("button", name=re.compile("Test Request")).click()
        with page.expect_request("**/api/users/me") as sent:
            page.get_by_role("dialog", name="API Client").get_by_role("button", name="Send get").click()
        token = sent.value.headers["authorization"].removeprefix("Bearer ")
        claims = jwt.decode(token, options={"verify_signature": False})
        assert claims["sub"] == str(persona_named("vendor").user_id)
        page.close()


def test_documentation_fits_a_phone(visit: Callable[..., Visit]) -> None:
    page = open_documentation(visit, viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert_accessible(page)


def test_documentation_without_scripts_links_to_the_openapi_document(visit: Callable[..., Visit]) -> None:
    docs = visit(java_script_enabled=False)
    docs.go("/docs")
    docs.page.get_by_role("link", name="/openapi.json").click()
    expect(docs.page).to_have_url(f"{docs.address}/openapi.json")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/errors", "/errors/validation-failed", "/nothing"])
def test_plain_pages_are_accessible_and_fit_narrow_screens(
    visit: Callable[..., Visit], path: str, scheme: str
) -> None:
    plain = visit(viewport=NARROW, color_scheme=scheme)
    status = plain.go(path)
    if status == 404:
        plain.complaints.clear()  # the browser reports the status as an error
    assert status == (404 if path == "/nothing" else 200)
    assert plain.fits()
    assert_accessible(plain.page)


def test_each_error_is_explained_on_a_narrow_screen_without_scripts(visit: Callable[..., Visit]) -> None:
    explained = visit(viewport=NARROW, java_script_enabled=False, color_scheme="dark")
    page = explained.page
    for code, entry in sorted(CATALOG.items()):
        assert explained.go(f"/errors/{error_slug(code)}") == 200
        expect(page).to_have_title(f"{code} · Campus Marketplace API")
        expect(page.get_by_role("heading", name=code, level=1)).to_be_visible()
        expect(page.get_by_text(entry.title, exact=True)).to_be_visible()
        expect(page.locator(".lead")).to_have_text(entry.meaning)
        expect(page.get_by_role("heading", name="Cure")).to_be_visible()


def test_status_page_is_readable_on_a_narrow_screen(visit: Callable[..., Visit], services: Services) -> None:
    incident_id = services.database.in_transaction(announce_incident)
    shown = visit(viewport=NARROW)
    assert shown.go("/status") == 200
    page = shown.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Some features are slow or unavailable")
    expect(page.get_by_role("heading", name=TITLE)).to_be_visible()
    assert shown.fits()
    assert_accessible(page)
    services.database.in_transaction(delete_incident, incident_id)


def test_error_page_fits_narrow_screen_and_links_to_documentation(
    visit: Callable[..., Visit],
) -> None:
    explained = visit(viewport=NARROW)
    explained.go("/errors/service-unavailable")
    page = explained.page
    assert explained.fits()
    # The page's content security policy admits the page's own style.
    assert page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") == "640px"
    page.get_by_role("link", name="API documentation").first.click()
    expect(page).to_have_url(f"{explained.address}/docs")
    expect(page.locator("#opening")).to_have_count(0)
