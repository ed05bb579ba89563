"""Generation of the reverse proxy's configuration from the contracts of the routes."""

import re
from collections import defaultdict
from collections.abc import Iterable

import click

from blueprints.areas import contracts
from blueprints.http.contract import Contract, ProcessGroup

_CADDYFILE_TEMPLATE = """\
# The reverse proxy in front of the two groups of web processes.
#
# Generated from the contracts of the routes by `marketplace proxy caddyfile > deploy/Caddyfile`. A test compares
# the two. To change anything else, edit the template in commands/proxy.py.
#
# SITE_ADDRESS      address of the site: http://:8000, or a host name, for which Caddy obtains a certificate
# BIND_ADDRESS      network interface to listen on; by default all interfaces
# API_UPSTREAM      host:port of the sync workers, which serve routes that compute
# WAITING_UPSTREAM  host:port of the gevent workers, which serve routes that wait for other services
# MEDIA_UPSTREAM    host:port of the object storage
# MEDIA_BUCKET      public bucket of the object storage
# TRUSTED_PROXIES   addresses of a load balancer in front of this proxy, to trust its X-Forwarded-For; by default
#                   none (192.0.2.1 is reserved for documentation)
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

	# Pictures of products: read one object at a time, no listing and no writing. Neither query nor credentials
	# reach the storage, so clients cannot use any other operation of its interface.
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
			# Hide the storage's own error responses.
			@absent status 4xx
			handle_response @absent {
				error 404
			}
		}
	}

	# Routes that wait for a provider, a browser or a slow upload. A gevent worker serves many of them at once.
#WAITING#
	handle {
		reverse_proxy {$API_UPSTREAM} {
			# Pass a request to a sync worker only with its whole body, so that slow clients do not occupy workers.
			request_buffers 2MB
			lb_try_duration 5s
			lb_try_interval 100ms
		}
	}

	# Errors of the proxy itself have the form of all other problems.
	handle_errors 404 {
		import problem
		respond `{"type":"/errors/resource-not-found","title":"Not Found","status":404,"code":"RESOURCE_NOT_FOUND","detail":"This picture does not exist.","requestId":"{http.request.uuid}"}` 404
	}
	handle_errors 405 {
		import problem
		header Allow "GET, HEAD"
		respond `{"type":"/errors/method-not-allowed","title":"Method Not Allowed","status":405,"code":"METHOD_NOT_ALLOWED","detail":"Pictures only support GET and HEAD.","requestId":"{http.request.uuid}"}` 405
	}
	handle_errors 502 503 504 {
		import problem
		header Retry-After 5
		respond `{"type":"/errors/service-unavailable","title":"Service Unavailable","status":503,"code":"SERVICE_UNAVAILABLE","detail":"The service is starting or stopping. Try again in a few seconds.","requestId":"{http.request.uuid}"}` 503
	}
}
"""  # noqa: E501 - a problem's body is one line
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


@click.group(help="Generate the configuration of the reverse proxy.")
def proxy() -> None:
    """Group the commands."""


@proxy.command(
    name="caddyfile",
    help="""Print the Caddyfile. The contracts of the routes decide which requests go to the waiting processes.

    Upstreams are named by environment variables, so that the same file works in every environment.

    \b
    Example, after adding a route:
      marketplace proxy caddyfile > deploy/Caddyfile""",
)
def print_caddyfile() -> None:
    """Print the configuration."""
    click.echo(render_caddyfile(contracts()), nl=False)


def render_caddyfile(routes: Iterable[Contract]) -> str:
    """Render the Caddyfile for the contracts of all routes."""
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
    """Return a route's path as a regular expression. API paths match with and without a version."""
    literal = [re.escape(part).replace(r"\-", "-") for part in _PATH_PARAMETER.split(path.rstrip("/"))]
    pattern = "[^/]+".join(literal)
    return f"/api(/v1)?/{pattern.removeprefix(_API_PREFIX)}" if pattern.startswith(_API_PREFIX) else pattern
