"""Whether the service can serve."""

from dataclasses import dataclass

from sqlalchemy import select

from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Database
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.platform.models import PlatformSetting


@dataclass(frozen=True)
class Readiness:
    """Which of the two dependencies that nothing works without answer."""

    database: bool
    cache: bool

    @property
    def ready(self) -> bool:
        """Tell whether both answer."""
        return self.database and self.cache


def check_readiness(database: Database, cache: Cache) -> Readiness:
    """Read one row of the platform's settings and ping the cache."""
    return Readiness(database=_is_database_available(database), cache=is_cache_available(cache))


def _is_database_available(database: Database) -> bool:
    try:
        with database.reading() as session:
            return session.scalar(select(PlatformSetting.key).limit(1)) is not None
    except ServiceUnavailableError:
        return False


def is_cache_available(cache: Cache) -> bool:
    """Tell whether the cache can be reached."""
    try:
        cache.ping()
    except CacheDownError:
        return False
    return True
