"""The sandbox's payment page in a real browser: payments, retries and sign-in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Browser, Page, Request, expect, sync_playwright

from sandbox.providers.server import ProvidersServer

CHROMIUM = Path("/usr/bin/chromium")
SECRET_KEY = "sk_test_of_these_tests"
TIMEOUT_SECONDS = 20

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"no browser at {CHROMIUM}; on Debian: apt-get install chromium"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProvidersServer]:
    with ProvidersServer(
        "127.0.0.1",
        0,
        tmp_path_factory.mktemp("providers"),
        secret_key=SECRET_KEY,
        webhook_url="http://127.0.0.1:9/nobody",
    ) as one:
        yield one


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield one
        one.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 320, "height": 640}, java_script_enabled=False)
    one = context.new_page()
    refused: list[str] = []

    def note(request: Request) -> None:
        # The browser aborts requests that are still open when the page is left.
        if request.failure != "net::ERR_ABORTED":
            refused.append(request.url)

    one.on("requestfailed", note)
    yield one
    assert refused == [], "a request of the page failed"
    context.close()


def call(server: ProvidersServer, method: str, path: str, **options: Any) -> Any:
    headers = {"Authorization": f"Bearer {SECRET_KEY}"}
    address = f"{server.gateway_url}{path}"
    response = requests.request(method, address, headers=headers, timeout=TIMEOUT_SECONDS, **options)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def started(server: ProvidersServer, reference: str, **more: object) -> str:
    body = {"email": "amara@north.example.edu", "amount": 1_250_050, "reference": reference, **more}
    return str(call(server, "POST", "/transaction/initialize", json=body)["authorization_url"])


def state_of(server: ProvidersServer, reference: str) -> str:
    return str(call(server, "GET", f"/transaction/verify/{reference}")["status"])


@pytest.mark.parametrize("label", ["Pay by card", "Pay by bank transfer", "Pay by USSD"])
def test_customer_pays_and_returns_to_the_shop(server: ProvidersServer, page: Page, label: str) -> None:
    reference = f"checkout-{label.lower().replace(' ', '-')}"
    page.goto(started(server, reference, callback_url=f"{server.url}/health?order=7"))
    expect(page.get_by_text("₦12,500.50")).to_be_visible()
    expect(page.get_by_text(reference)).to_be_visible()
    page.get_by_role("button", name=label).click()
    expect(page).to_have_url(f"{server.url}/health?order=7&trxref={reference}&reference={reference}")
    assert state_of(server, reference) == "success"


def test_payment_without_return_address_shows_the_result(server: ProvidersServer, page: Page) -> None:
    page.goto(started(server, "checkout-result"))
    page.get_by_role("button", name="Pay by card").press("Enter")
    expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()
    expect(page.get_by_role("button")).to_have_count(0)


def test_second_payment_shows_already_paid(server: ProvidersServer, page: Page) -> None:
    address = started(server, "checkout-twice", callback_url=f"{server.url}/health")
    page.goto(address)
    call(server, "POST", "/sandbox/pay/checkout-twice")
    page.get_by_role("button", name="Pay by card").click()
    expect(page.get_by_role("heading", name="Already paid")).to_be_visible()
    expect(page.get_by_role("status")).to_contain_text("You were charged once")
    back = page.get_by_role("link", name="Return to the shop")
    expect(back).to_have_attribute(
        "href", f"{server.url}/health?trxref=checkout-twice&reference=checkout-twice"
    )


def test_declined_payment_can_be_retried(server: ProvidersServer, page: Page) -> None:
    page.goto(started(server, "checkout-declined"))
    page.get_by_role("button", name="Decline the payment").click()
    expect(page.get_by_role("alert")).to_contain_text("The payment was declined.")
    assert state_of(server, "checkout-declined") == "failed"
    page.get_by_role("button", name="Pay by card").click()
    expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()


def test_cancelled_payment_returns_unpaid(server: ProvidersServer, page: Page) -> None:
    metadata = {"cancel_action": f"{server.url}/health?cancelled=1"}
    page.goto(started(server, "checkout-cancelled", metadata=metadata))
    page.get_by_role("button", name="Cancel").click()
    expect(page).to_have_url(f"{server.url}/health?cancelled=1")
    assert state_of(server, "checkout-cancelled") == "abandoned"


def test_only_channels_allowed_by_the_shop_are_offered(server: ProvidersServer, page: Page) -> None:
    page.goto(started(server, "checkout-channels", channels=["ussd"]))
    expect(page.get_by_role("group", name="Choose a payment method").get_by_role("button")).to_have_text(
        ["Pay by USSD"]
    )


def test_unknown_payment_is_reported(server: ProvidersServer, page: Page) -> None:
    response = page.goto(f"{server.gateway_url}/pay/none")
    assert response is not None
    assert response.status == 404
    expect(page.get_by_role("heading", name="Payment not found")).to_be_visible()


def test_payment_page_fits_a_phone_screen(server: ProvidersServer, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 320, "height": 640})
    page.goto(started(server, f"checkout-{'0123456789abcdef' * 2}", callback_url=f"{server.url}/health"))
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    heights = page.eval_on_selector_all("button", "all => all.map(one => one.offsetHeight)")
    assert min(heights) >= 44
    page.close()


def test_persona_signs_in_with_a_second_factor(server: ProvidersServer, page: Page) -> None:
    challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
    page.goto(
        f"{server.identity_issuer}/authorize?response_type=code&client_id=back-office&scope=openid&state=s"
        f"&redirect_uri={server.url}/health&code_challenge={challenge}&code_challenge_method=S256"
    )
    page.get_by_label("Zainab Lawal").check()
    page.get_by_label("Use a second factor (AAL2)").check()
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{server.url}/health?code=*&state=s")
