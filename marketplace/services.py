"""The shared services of a process, created once from the settings."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache as cache_result, partial

from marketplace.health.probes import ProbeResults
from marketplace.infra.cache import Cache
from marketplace.infra.circuit_breaker import CircuitBreaker
from marketplace.infra.database_clock import DatabaseClock
from marketplace.infra.db import Database
from marketplace.infra.encryption import make_keyring, use_keyring
from marketplace.infra.settings import Settings
from marketplace.infra.signals.sending import SignalSender
from marketplace.infra.waits.limits import WaitLimits
from marketplace.kernel.clock import Clock
from marketplace.notifications.delivery.channels import DeliveryChannel
from marketplace.notifications.delivery.drain import ChannelHealth
from marketplace.notifications.delivery.senders import make_channels
from marketplace.notifications.live_streams import LiveStreams
from marketplace.providers.gateway.payments import HttpPaymentGateway, PaymentGateway
from marketplace.providers.gateway.records import GatewayRecords, HttpGatewayRecords
from marketplace.providers.gateway.transfers import HttpTransferGateway, TransferGateway
from marketplace.providers.identity import TokenVerifier
from marketplace.providers.identity_accounts import IdentityAccounts, make_identity_accounts
from marketplace.providers.language_model import LanguageModel, make_language_model
from marketplace.providers.messaging.alert_channels import (
    AlertChannel,
    alert_circuit_breakers,
    make_alert_channels,
)
from marketplace.providers.messaging.media import MessageMediaClient
from marketplace.providers.messaging.sms import SmsGateway
from marketplace.providers.messaging.templates import MessagingClient
from marketplace.providers.moderation import ContentModerator, make_content_moderator
from marketplace.providers.scale_hook import ScaleHook
from marketplace.providers.storage import ObjectStorage, S3ObjectStorage


@dataclass(frozen=True)
class Services:
    """Settings, database, cache, clock and providers."""

    settings: Settings
    database: Database
    cache: Cache
    live_streams: LiveStreams
    token_verifier: TokenVerifier
    identity_accounts: IdentityAccounts | None
    gateway: PaymentGateway
    transfers: TransferGateway
    gateway_records: GatewayRecords
    moderator: ContentModerator | None
    language_model: LanguageModel | None
    sms: SmsGateway
    scale_hook: ScaleHook
    messaging: MessagingClient
    message_media: MessageMediaClient
    storage: ObjectStorage
    alert_channels: Mapping[str, AlertChannel]
    clock: Clock
    signal_sender: SignalSender
    delivery_channels: Callable[[], Mapping[str, DeliveryChannel]]
    delivery_health: defaultdict[str, ChannelHealth] = field(
        default_factory=lambda: defaultdict(ChannelHealth)
    )
    probe_results: ProbeResults = field(default_factory=ProbeResults)
    alert_circuit_breakers: Mapping[str, CircuitBreaker] = field(default_factory=alert_circuit_breakers)

    @classmethod
    def from_settings(
        cls, settings: Settings, *, application_name: str, wait_limits: WaitLimits | None = None
    ) -> "Services":
        """Create the services. Each connects at first use.

        :param application_name: the name of the process in the database's statistics views
        :param wait_limits: limits on waits for the database; None for no limits, as commands need for COPY
        """
        use_keyring(make_keyring(settings.data_encryption_keys, settings.blind_index_key))
        cache = Cache(settings.redis_url)
        database = Database(
            settings.database_url,
            pool_size=settings.database_pool_size,
            application_name=application_name,
            prepared_statements=settings.database_prepared_statements == "on",
            drop_stale_content=cache.drop_after_commit,
            publish_events=cache.publish_after_commit,
            wait_limits=wait_limits,
        )
        sms = SmsGateway(settings)
        clock = DatabaseClock(database)
        return cls(
            settings=settings,
            database=database,
            cache=cache,
            live_streams=LiveStreams(cache),
            token_verifier=TokenVerifier(settings),
            identity_accounts=make_identity_accounts(settings),
            gateway=HttpPaymentGateway(settings),
            transfers=HttpTransferGateway(settings),
            gateway_records=HttpGatewayRecords(settings),
            moderator=make_content_moderator(settings),
            language_model=make_language_model(settings),
            sms=sms,
            scale_hook=ScaleHook(settings),
            messaging=MessagingClient(settings),
            message_media=MessageMediaClient(settings),
            storage=S3ObjectStorage(settings),
            alert_channels=make_alert_channels(settings),
            clock=clock,
            signal_sender=SignalSender(cache, clock=clock, samples=(database.sample_pool,)),
            # Only workers that deliver need the providers' libraries.
            delivery_channels=cache_result(partial(make_channels, settings, sms=sms, clock=clock)),
        )
