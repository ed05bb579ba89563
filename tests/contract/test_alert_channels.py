"""Alert channels against real servers: the sandbox's chat over HTTP, and a mail server over SMTP."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from structlog.testing import capture_logs

from marketplace.infra.settings import Settings
from marketplace.kernel.errors import ProviderUnavailableError
from marketplace.providers.client import ProviderRefusedError
from marketplace.providers.messaging import alert_channels as messaging_alert_channels
from marketplace.providers.messaging.alert_channels import (
    AlertMessage,
    ChatChannel,
    EmailChannel,
    channel_kind,
    email_channel_name,
    make_alert_channels,
)
from sandbox.providers.server import ProvidersServer
from tests.support.mail_server import PASSWORD, USER, MailServer, make_certificate
from tests.support.probes import closed_port

TIMEOUT_SECONDS = 20
MESSAGE = AlertMessage(
    "0199-raised", "[SEV-1] ESCROW_DRIFT: <the> books & all", "About: naïve €\nFirst: stop."
)
TO = ("night@ops.test", "finance@ops.test")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messaging_alert_channels, "_TIMEOUT_SECONDS", 1.0)


class TestChat:
    @pytest.fixture
    def address(self, tmp_path: Path) -> Iterator[str]:
        with ProvidersServer(
            "127.0.0.1", 0, tmp_path, secret_key="sk_test_x", webhook_url="http://127.0.0.1:9/"
        ) as server:
            yield server.chat_url

    @pytest.fixture
    def chat(self, settings: Settings, address: str) -> ChatChannel:
        return ChatChannel(replace(settings, alert_chat_url=f"{address}/hook"))

    def plan(self, address: str, outcome: str) -> None:
        answer = requests.post(f"{address}/sandbox/next", json={"outcome": outcome}, timeout=TIMEOUT_SECONDS)
        assert answer.status_code == 200, answer.text

    def received(self, address: str) -> dict[str, Any]:
        data: dict[str, Any] = requests.get(f"{address}/sandbox/messages", timeout=TIMEOUT_SECONDS).json()[
            "data"
        ]
        return data

    def test_chat_message_arrives_with_escaped_markup(self, chat: ChatChannel, address: str) -> None:
        chat.send(MESSAGE)

        [message] = self.received(address)["messages"]
        assert message["text"] == (
            "*[SEV-1] ESCROW_DRIFT: &lt;the&gt; books &amp; all*\nAbout: naïve €\nFirst: stop."
        )
        page = requests.get(f"{address}/", timeout=TIMEOUT_SECONDS)
        assert message["text"] in page.text
        assert page.headers["Content-Type"].startswith("text/plain")

    @pytest.mark.parametrize("outcome", ["error", "limited", "timeout"])
    def test_temporary_chat_failure_is_retryable(self, chat: ChatChannel, address: str, outcome: str) -> None:
        self.plan(address, outcome)

        with pytest.raises(ProviderUnavailableError):
            chat.send(MESSAGE)

        assert self.received(address)["calls"] == 1

    def test_removed_chat_webhook_is_refused(self, chat: ChatChannel, address: str) -> None:
        self.plan(address, "refused")

        with pytest.raises(ProviderRefusedError) as refused:
            chat.send(MESSAGE)

        assert refused.value.status == 404

    def test_chat_address_is_not_disclosed(self, settings: Settings) -> None:
        """The address is the secret: any holder may post."""
        url = f"http://127.0.0.1:{closed_port()}/services/T000/B000/SECRETPART"
        chat = ChatChannel(replace(settings, alert_chat_url=url))

        with capture_logs() as logs, pytest.raises(ProviderUnavailableError) as failed:
            chat.send(MESSAGE)

        shown = "".join(traceback.format_exception(failed.value)) + str(logs)
        assert "chat" in shown
        assert "SECRETPART" not in shown

    @pytest.mark.parametrize("body", [b"{}", b'{"text": ""}', b"[]", b"no json"])
    def test_sandbox_chat_refuses_invalid_messages(self, address: str, body: bytes) -> None:
        answer = requests.post(f"{address}/hook", data=body, timeout=TIMEOUT_SECONDS)

        assert (answer.status_code, answer.text) in {(400, "no_text"), (400, "invalid_payload")}
        assert self.received(address)["messages"] == []


class TestMail:
    @pytest.fixture
    def certificate(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
        """A server certificate that this process trusts."""
        made = make_certificate(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(made[1]))
        return made

    @pytest.fixture
    def serve(self) -> Iterator[Callable[..., MailServer]]:
        made: list[MailServer] = []

        def start(**given: Any) -> MailServer:
            made.append(MailServer(**given))
            return made[-1]

        yield start
        for server in made:
            server.close()

    def channel(
        self, settings: Settings, server: MailServer, *, scheme: str = "smtp", to: str = TO[0]
    ) -> EmailChannel:
        login = f"{USER}:{quote(PASSWORD, safe='')}@" if server.wants_password else ""
        url = f"{scheme}://{login}127.0.0.1:{server.port}"
        given = {"smtp_url": url, "alert_email_to": TO, "alert_email_from": "alerts@shop.test"}
        return EmailChannel(replace(settings, **given), recipient=to)

    def test_mail_has_complete_headers_and_text(
        self, settings: Settings, serve: Callable[..., MailServer]
    ) -> None:
        server = serve()

        self.channel(settings, server).send(MESSAGE)

        [mail] = server.mails
        # The header names all recipients, and the envelope only this recipient.
        assert server.receivers == [[TO[0]]]
        assert (mail["From"], mail["To"]) == ("alerts@shop.test", ", ".join(TO))
        assert mail["Subject"] == MESSAGE.headline
        assert mail["Message-ID"] == "<0199-raised@shop.test>"
        assert mail["Auto-Submitted"] == "auto-generated"
        assert mail["Date"].datetime.tzinfo is not None
        assert mail.get_content().splitlines() == MESSAGE.text.splitlines()

    @pytest.mark.parametrize("scheme", ["smtp", "smtps"])
    def test_mail_connection_is_encrypted_before_password_is_sent(
        self,
        settings: Settings,
        serve: Callable[..., MailServer],
        certificate: tuple[Path, Path],
        scheme: str,
    ) -> None:
        server = serve(certificate=certificate, tls=scheme == "smtps", password=True)

        self.channel(settings, server, scheme=scheme).send(MESSAGE)

        assert len(server.mails) == 1
        assert server.encrypted == [True]
        assert server.logins == [(USER, PASSWORD)]

    def test_password_is_not_sent_unencrypted(
        self, settings: Settings, serve: Callable[..., MailServer]
    ) -> None:
        server = serve(password=True)

        with pytest.raises(ProviderUnavailableError):
            self.channel(settings, server).send(MESSAGE)

        assert server.logins == []
        assert "AUTH" not in server.commands

    @pytest.mark.parametrize("scheme", ["smtp", "smtps"])
    def test_mail_server_with_wrong_certificate_gets_nothing(
        self, settings: Settings, serve: Callable[..., MailServer], tmp_path: Path, scheme: str
    ) -> None:
        server = serve(certificate=make_certificate(tmp_path), tls=scheme == "smtps", password=True)

        with pytest.raises(ProviderUnavailableError):
            self.channel(settings, server, scheme=scheme).send(MESSAGE)

        assert (server.logins, server.mails) == ([], [])

    @pytest.mark.parametrize(
        ("fault", "error"),
        [
            ("refuse", ProviderRefusedError),
            ("reject", ProviderRefusedError),
            ("drop", ProviderUnavailableError),
            ("hang", ProviderUnavailableError),
        ],
    )
    def test_rejected_or_interrupted_mail_raises_an_error(
        self, settings: Settings, serve: Callable[..., MailServer], fault: str, error: type[Exception]
    ) -> None:
        server = serve()
        server.fault = fault

        with capture_logs() as logs, pytest.raises(error) as failed:
            self.channel(settings, server).send(MESSAGE)

        assert server.mails == []
        shown = "".join(traceback.format_exception(failed.value)) + str(logs)
        assert not any(address in shown for address in TO)

    @pytest.mark.parametrize("fault", ["sulk", "vanish"])
    def test_accepted_mail_counts_as_sent_despite_error_on_quit(
        self, settings: Settings, serve: Callable[..., MailServer], fault: str
    ) -> None:
        server = serve()
        server.fault = fault

        self.channel(settings, server).send(MESSAGE)

        assert len(server.mails) == 1
        assert server.commands[-1] == "QUIT"

    def test_refused_recipient_is_logged_by_status_only(
        self, settings: Settings, serve: Callable[..., MailServer]
    ) -> None:
        channel = self.channel(settings, serve(), to="gone@refused.test")
        with capture_logs() as logs, pytest.raises(ProviderRefusedError) as refused:
            channel.send(MESSAGE)

        assert refused.value.status == 450
        assert [(entry["event"], entry["status"]) for entry in logs] == [("mail refused", 450)]
        assert "gone@" not in "".join(traceback.format_exception(refused.value)) + str(logs)

    def test_unreachable_mail_server_is_unavailable(self, settings: Settings) -> None:
        url = f"smtp://127.0.0.1:{closed_port()}"
        with pytest.raises(ProviderUnavailableError):
            EmailChannel(replace(settings, smtp_url=url, alert_email_to=TO), recipient=TO[0]).send(MESSAGE)


def test_alert_channels_match_the_settings(settings: Settings) -> None:
    assert make_alert_channels(settings) == {}
    given = replace(
        settings,
        alert_chat_url="http://127.0.0.1:9/hook",
        alert_email_to=TO,
        smtp_url="smtp://127.0.0.1:9",
        alert_chat_severity="SEV-1",
    )
    made = make_alert_channels(given)
    assert {name: channel.minimum_severity for name, channel in made.items()} == {
        "chat": "SEV-1",
        **{email_channel_name(address): "SEV-3" for address in TO},
    }
    assert [channel_kind(name) for name in made] == ["chat", "email", "email"]
    assert not any(word in str(made) for word in ("night", "finance", "ops.test"))
    assert given.alert_sender == "alerts@127.0.0.1"
