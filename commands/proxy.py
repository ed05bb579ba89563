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
# PUBLIC_BASE_URL   base URL of the API for clients; the type of the proxy's own problems starts with it
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
			read_body 10m
			idle 2m
		}
		# The web processes refuse much smaller headers, with a problem. Go's own answer beyond this size has no body.
		max_header_size 1MB
	}
}

(waiting) {
	reverse_proxy {$WAITING_UPSTREAM} {
		lb_try_duration 5s
		lb_try_interval 100ms
	}
}

{$SITE_ADDRESS} {
	header -Server

	# Weak entity tags name the content in every encoding. Event streams and pictures stay as they are.
	# A compressed answer to HEAD would have the length of nothing, compressed.
	@compressible not method HEAD
	encode @compressible zstd gzip {
		minimum_length 1024
		match {
			header Content-Type application/json*
			header Content-Type application/problem+json*
			header Content-Type text/html*
			header Content-Type text/css*
			header Content-Type text/csv*
			header Content-Type text/javascript*
			header Content-Type text/plain*
			header Content-Type image/svg+xml*
		}
	}

	# Much larger than any route accepts, but less than the web processes read of a refused body.
	request_body {
		max_size 64MB
	}

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
	# Bodies of 2 MB or more, which no route of the sync workers accepts. A gevent worker reads them to the end, however
	# slowly they arrive, and then sends the refusal.
	@large header_regexp Content-Length ^0*([1-9][0-9]{7,}|[2-9][0-9]{6})$
	handle @large {
		import waiting
	}
	handle {
		reverse_proxy {$API_UPSTREAM} {
			# Pass a request to a sync worker only with its whole body, so that slow clients do not occupy workers.
			request_buffers 2MB
			lb_try_duration 5s
			lb_try_interval 100ms
		}
	}

	# Errors of the proxy itself have the form of all other problems. Templates only fill in the path and the time.
	handle_errors {
		map "{err.status_code} {err.message}" {problem_status} {problem_code} {problem_slug} {problem_title} {problem_detail} {
			~^404 404 RESOURCE_NOT_FOUND resource-not-found "Not Found" "This picture does not exist."
			~^405 405 METHOD_NOT_ALLOWED method-not-allowed "Method Not Allowed" "Pictures only support GET and HEAD."
			~^413 413 PAYLOAD_TOO_LARGE payload-too-large "Payload Too Large" "The request body is too large for this route."
			"~^4|^502 .*chunk" 400 VALIDATION_FAILED validation-failed "Bad Request" "The server could not read the request. Check the URL, the headers and the body."
			default 503 SERVICE_UNAVAILABLE service-unavailable "Service Unavailable" "The service is starting or stopping. Try again in a few seconds."
		}
		header {
			Content-Type application/problem+json
			Cache-Control no-store
			X-Request-ID {http.request.uuid}
			X-Content-Type-Options nosniff
			X-Frame-Options DENY
			Referrer-Policy no-referrer
			Content-Security-Policy "default-src 'none'; frame-ancestors 'none'"
		}
		@absent_method vars {problem_status} 405
		header @absent_method Allow "GET, HEAD"
		@unavailable vars {problem_status} 503
		header @unavailable Retry-After 5
		templates {
			mime application/problem+json
		}
		respond `{"type":"{$PUBLIC_BASE_URL:}/errors/{problem_slug}","title":"{problem_title}","status":{problem_status},"detail":"{problem_detail}","instance":{{toJson .OriginalReq.URL.EscapedPath}},"code":"{problem_code}","requestId":"{http.request.uuid}","timestamp":"{{now.UTC.Format "2006-01-02T15:04:05.000000Z"}}"}` {problem_status}
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
