"""The reverse proxy's configuration, made from the routes' contracts."""

import re
from collections import defaultdict
from collections.abc import Iterable

import click

from blueprints.areas import contracts
from blueprints.http.contract import Contract, ProcessGroup

_CADDYFILE_TEMPLATE = """\
# The reverse proxy before the two groups of web processes.
#
# Made by `marketplace proxy caddyfile > deploy/Caddyfile` from the contracts of the routes; a test holds it
# against them. To change anything else, change the template in commands/proxy.py.
#
# SITE_ADDRESS      where it listens: http://:8000, or a host name, for which it then obtains a certificate
# BIND_ADDRESS      the interface that it listens on; all of them when not given
# API_UPSTREAM      host:port of the sync workers, which serve what computes
# WAITING_UPSTREAM  host:port of the gevent workers, which serve what waits for others
# MEDIA_UPSTREAM    host:port of the object storage
# MEDIA_BUCKET      its public bucket
# TRUSTED_PROXIES   addresses of a load balancer before this proxy, whose X-Forwarded-For is believed; none when
#                   not given (192.0.2.1 is an address that nobody has)
{
	admin off
	persist_config off
	skip_install_trust
	default_bind {$BIND_ADDRESS:0.0.0.0}
	grace_period 5s
	log default {
		output stderr
		format json
		level WARN
	}
	servers {
		trusted_proxies static {$TRUSTED_PROXIES:192.0.2.1/32}
		timeouts {
			read_header 10s
			read_body 2m
			idle 2m
		}
		max_header_size 32KB
	}
}

(waiting) {
	reverse_proxy {$WAITING_UPSTREAM} {
		lb_try_duration 5s
		lb_try_interval 100ms
	}
}

(problem) {
	header Content-Type application/problem+json
	header Cache-Control no-store
	header X-Request-ID {http.request.uuid}
}

{$SITE_ADDRESS} {
	header -Server

	# Pictures of products: one object at a time is read, nothing is listed or written. Neither the query nor
	# credentials reach the storage, so no other operation of its interface can be asked for.
	handle_path /media/* {
		@writing not method GET HEAD
		error @writing 405
		rewrite * /{$MEDIA_BUCKET:marketplace-public}{path}?
		reverse_proxy {$MEDIA_UPSTREAM} {
			header_up Host {upstream_hostport}
			header_up -Authorization
			header_up -Cookie
			header_down -Server
			header_down -X-Amz-*
			header_down -Seaweed-*
			header_down X-Content-Type-Options nosniff
			header_down Content-Security-Policy "default-src 'none'; sandbox"
			# What the storage says of an object that is not there is its own affair.
			@absent status 4xx
			handle_response @absent {
				error 404
			}
		}
	}

	# What waits for a provider, a browser or a slow upload: a gevent worker holds many of these at once.
#WAITING#
	handle {
		reverse_proxy {$API_UPSTREAM} {
			# A sync worker gets a request only when its body is here, so a slow client can't hold it.
			request_buffers 2MB
			lb_try_duration 5s
			lb_try_interval 100ms
		}
	}

	# What the proxy answers itself has the form of all other problems.
	handle_errors 404 {
		import problem
		respond `{"type":"/errors/resource-not-found","title":"Not Found","status":404,"code":"RESOURCE_NOT_FOUND","detail":"There is no such picture.","requestId":"{http.request.uuid}"}` 404
	}
	handle_errors 405 {
		import problem
		header Allow "GET, HEAD"
		respond `{"type":"/errors/method-not-allowed","title":"Method Not Allowed","status":405,"code":"METHOD_NOT_ALLOWED","detail":"Pictures are only read.","requestId":"{http.request.uuid}"}` 405
	}
	handle_errors 502 503 504 {
		import problem
		header Retry-After 5
		respond `{"type":"/errors/service-unavailable","title":"Service Unavailable","status":503,"code":"SERVICE_UNAVAILABLE","detail":"The service is starting or stopping. Try again in a few seconds.","requestId":"{http.request.uuid}"}` 503
	}
}
"""  # noqa: E501 - the problem's body is one line
_MATCHER_TEMPLATE = """\
	@waiting_{name} {{
		method {methods}
		path_regexp ^({paths})/?$
	}}
	handle @waiting_{name} {{
		import waiting
	}}
"""
_PATH_PARAMETER = re.compile(r"<(?:[^:<>]+:)?[^<>]+>")
_API_PREFIX = "/api/"


@click.group(help="Write the reverse proxy's configuration.")
def proxy() -> None:
    """Group the commands."""


@proxy.command(
    name="caddyfile",
    help="""Print the Caddyfile: which requests go to the processes that wait is taken from the routes.

    It names its upstreams by variables, so that one file serves everywhere.

    \b
    Example, after adding a route:
      marketplace proxy caddyfile > deploy/Caddyfile""",
)
def print_caddyfile() -> None:
    """Print the configuration."""
    click.echo(render_caddyfile(contracts()), nl=False)


def render_caddyfile(routes: Iterable[Contract]) -> str:
    """Write the Caddyfile.

    :param routes: the contracts of all routes
    """
    waiting: dict[str, set[str]] = defaultdict(set)
    for route in routes:
        if route.group is ProcessGroup.WAITING:
            waiting[route.method].add(_path_pattern(route.path))
    blocks = [
        _MATCHER_TEMPLATE.format(
            name=method.lower(),
            methods="GET HEAD" if method == "GET" else method,
            paths="|".join(sorted(waiting[method])),
        )
        for method in sorted(waiting)
    ]
    return _CADDYFILE_TEMPLATE.replace("#WAITING#\n", "\n".join([*blocks, ""]))


def _path_pattern(path: str) -> str:
    """Write a route's path as a regular expression, of both spellings where it is the API's."""
    literal = [re.escape(part).replace(r"\-", "-") for part in _PATH_PARAMETER.split(path.rstrip("/"))]
    pattern = "[^/]+".join(literal)
    return f"/api(/v1)?/{pattern.removeprefix(_API_PREFIX)}" if pattern.startswith(_API_PREFIX) else pattern
