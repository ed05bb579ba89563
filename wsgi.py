"""The composition root, which wires HTTP, tasks and domain together. The application is ``wsgi:app``."""

from blueprints.areas import AREAS
from blueprints.http.application import build_app
from marketplace.infra.logs import configure_error_tracking, configure_logging
from marketplace.infra.settings import load_settings
from marketplace.infra.tracing.collector import configure_tracing
from marketplace.infra.waits.limits import web_limits
from marketplace.services import Services
from tasks.dispatcher import Dispatcher, connect_wakeups

settings = load_settings()
configure_logging(settings)
configure_error_tracking(settings)
configure_tracing(settings, process="web")
services = Services.from_settings(
    settings, application_name="web", wait_limits=web_limits(settings.database_wait_scale)
)
connect_wakeups(Dispatcher(services))
app = build_app(services, AREAS)
