"""A site of real servers and processes for each module."""

from collections.abc import Iterator

import pytest

from tests.support.purchases import Shop, make_shop
from tests.support.service_processes import ServiceProcesses, SiteServers, running_site


@pytest.fixture(scope="session")
def site_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServers]:
    """The database and the cache of all sites, which tests may stop and restart."""
    directory = tmp_path_factory.mktemp("site-servers")
    # The database's server runs as another user.
    directory.chmod(0o711)
    servers = SiteServers(directory)
    yield servers
    servers.stop()


@pytest.fixture(scope="module")
def whole_site(
    tmp_path_factory: pytest.TempPathFactory, site_servers: SiteServers
) -> Iterator[ServiceProcesses]:
    """A site with an empty database for each module."""
    with running_site(tmp_path_factory.mktemp("site"), site_servers) as site:
        yield site


@pytest.fixture
def site(whole_site: ServiceProcesses) -> Iterator[ServiceProcesses]:
    """The site with all its servers, no web and no workers, nothing in its queues."""
    whole_site.restart_servers()
    yield whole_site
    whole_site.stop_processes()
    whole_site.restart_servers()


@pytest.fixture
def shop(site: ServiceProcesses) -> Shop:
    return site.database.in_transaction(make_shop)
