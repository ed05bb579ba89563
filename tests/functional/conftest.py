"""Fixtures for tests with real servers and processes, on a separate site for each module."""

from collections.abc import Iterator

import pytest

from tests.support.purchases import Shop, make_shop
from tests.support.service_processes import ServiceProcesses, SiteServers, running_site


@pytest.fixture(scope="session")
def site_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiteServers]:
    """The database and cache servers of all sites, which tests may stop and restart."""
    directory = tmp_path_factory.mktemp("site-servers")
    # The database server runs as another user with access to the directory.
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
    """The site with all servers, no web or worker processes, and empty queues."""
    whole_site.restart_servers()
    yield whole_site
    whole_site.stop_processes()
    whole_site.restart_servers()


@pytest.fixture
def shop(site: ServiceProcesses) -> Shop:
    return site.database.in_transaction(make_shop)
