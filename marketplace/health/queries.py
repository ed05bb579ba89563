"""Whether the service can serve."""

from dataclasses import dataclass

from sqlalchemy import select

from marketplace.infra.cache import Cache, CacheDownError
from marketplace.infra.db import Database, Statement
from marketplace.kernel.errors import ServiceUnavailableError
from marketplace.platform.models import PlatformSetting

_ONE_SETTING = Statement(select(PlatformSetting.key).limit(1))


@dataclass(frozen=True)
class Readiness:
    """Which of the two dependencies that nothing works without answer."""

    database: bool
    cache: bool

    @property
    def ready(self) -> bool:
        """Tell whether both answer."""
        return self.database and self.cache


def readiness(database: Database, cache: Cache) -> Readiness:
    """Read one row of the platform's settings and ping the cache."""
    return Readiness(database=_database_answers(database), cache=cache_answers(cache))


def _database_answers(database: Database) -> bool:
    try:
        with database.reading() as session:
            return _ONE_SETTING.first(session) is not None
    except ServiceUnavailableError:
        return False


def cache_answers(cache: Cache) -> bool:
    """Tell whether the cache can be reached."""
    try:
        cache.ping()
    except CacheDownError:
        return False
    return True
