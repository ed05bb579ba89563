"""Routes under contract: a decorator declares a route, and ``Endpoint`` serves the requests.

.. code-block:: python

    @area.post("/<uuid:order_id>/verify-code", auth=VENDOR, limit="10/minute", body=DeliveryPin, reply=Order)
    def verify_code(ctx, order_id, body):
        ...
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partialmethod
from typing import Any

from flask import Blueprint as FlaskBlueprint, Response
from flask_smorest import Blueprint
from marshmallow import Schema

from blueprints.http import (
    auth,
    caching,
    deprecation as deprecations,
    idempotency,
    limits,
    paging,
    request_parsing,
    uploads,
)
from blueprints.http.context import Context, FinalPhase, WithStatus, current_context
from blueprints.http.contract import (
    Access,
    Contract,
    Idempotency,
    ProcessGroup,
    RouteLimit,
    SharedLimit,
    Upload,
)
from blueprints.http.deprecation import Deprecation
from blueprints.http.envelope import JSON_TYPE, MetaSchema, dump_json, dump_members, envelope
from blueprints.http.reply_renderer import compile_renderer
from blueprints.http.request_parsing import MAX_BODY_BYTES
from marketplace.idempotency import operations as keys
from marketplace.idempotency.operations import KeyLease, StoredResponse
from marketplace.infra.db import run_with_retries
from marketplace.infra.waits.limits import declared_wait_seconds
from marketplace.kernel.errors import MarketplaceError
from marketplace.kernel.paging import DataWithMeta, Page, TablePage

View = Callable[..., Any]


class Endpoint:
    """A route: the contract, the view, and the steps of a request."""

    def __init__(self, contract: Contract, view: View) -> None:
        self.contract = contract
        self.__doc__ = (view.__doc__ or "").strip()
        # Flask-Limiter identifies a view by these names, as of a function.
        self.__module__, self.__name__, self.__qualname__ = view.__module__, view.__name__, contract.name
        self._view = view
        self._wait_seconds = contract.declared_wait_seconds
        self._renderer = compile_renderer(contract.reply) if contract.reply else None
        self._meta_renderer = compile_renderer(contract.meta(), partial=True)

    def __call__(self, **path: Any) -> Response:
        """Serve a request: authenticate, check access and limits, parse the input, then call the view."""
        context = current_context()
        context.contract = self.contract
        if self.contract.deprecation is not None:
            route = f"{self.contract.method} {self.contract.path}"
            deprecations.add_deprecation_headers(context.headers, self.contract.deprecation, route=route)
        declared_wait_seconds.set(self._wait_seconds)
        auth.authenticate(context, self.contract)
        if self.contract.cache_seconds:
            return self._serve_cached(context, path)
        limits.enforce_rate_limit(context, contract=self.contract)
        arguments = self._load_arguments(context, path)
        key = idempotency.read_idempotency_key(self.contract)
        if key is not None:
            stored = idempotency.perform_once(
                context,
                key=key,
                request_hash=request_parsing.digest_arguments(arguments),
                execute=lambda lease: self._run_write(context, arguments, lease),
            )
        elif self.contract.opens_transaction:
            stored = self._run_write(context, arguments, None)
        else:
            value = self._run_read(context, arguments)
            if isinstance(value, Response):
                return value
            stored = self._render(context, value)
        return Response(stored.body, status=stored.status, content_type=stored.content_type)

    def _load_arguments(
        self, context: Context, path: dict[str, Any], query: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Read the view's arguments. A given ``query`` is already parsed."""
        contract = self.contract
        arguments = dict(path)
        request_parsing.ensure_valid_path_choices(contract.choices, path)
        query = request_parsing.load_query(contract.query) if query is None else dict(query)
        if contract.query is not None:
            paging.read_requested_page(context, contract.query, query)
            arguments["query"] = query
        if contract.body is not None:
            arguments["body"] = request_parsing.load_body(contract.body, max_bytes=contract.max_body_bytes)
        if contract.upload is not None:
            arguments["file"] = uploads.receive_file(contract.upload)
            context.open_files.append(arguments["file"])
        return arguments

    def _run_read(self, context: Context, arguments: dict[str, Any]) -> Any:
        if self.contract.phased:
            return self._view(context, **arguments)
        with context.services.database.reading() as context.open_session:
            return self._view(context, **arguments)

    def _serve_cached(self, context: Context, path: dict[str, Any]) -> Response:
        contract = self.contract
        try:
            cacheable = caching.parse_cacheable_request(contract, path)
        except MarketplaceError:
            # Refused requests count too, and an exceeded limit takes precedence over invalid parameters.
            limits.enforce_rate_limit(context, contract=contract)
            raise
        key = cacheable.content_key
        lookup = limits.enforce_rate_limit(
            context, contract=contract, content_key=key, tags=contract.cache_tags
        )

        def compute() -> tuple[bytes, bytes]:
            arguments = self._load_arguments(context, path, cacheable.query)
            data, meta = self._data_and_meta(context, self._run_read(context, arguments))
            return dump_json(data), dump_members(meta) if meta else b""

        content = caching.get_or_compute_content(
            context, key=key, lookup=lookup, ttl_seconds=contract.cache_seconds, compute=compute
        )
        return caching.build_cached_response(context, content=content, ttl_seconds=contract.cache_seconds)

    def _run_write(
        self, context: Context, arguments: dict[str, Any], lease: KeyLease | None
    ) -> StoredResponse:
        """Perform a write in a transaction that also completes the idempotency key.

        A phased view runs before that transaction and may leave a ``FinalPhase`` for that transaction to apply.
        """
        phased = self._view(context, **arguments) if self.contract.phased else None

        def attempt() -> StoredResponse | MarketplaceError:
            with context.services.database.transaction() as session:
                try:
                    if not self.contract.phased:
                        context.open_session = session
                        value = self._view(context, **arguments)
                    else:
                        value = phased.apply(session) if isinstance(phased, FinalPhase) else phased
                    response = self._render(context, value)
                except MarketplaceError as error:
                    if not error.keeps_changes:
                        raise
                    if lease is not None:
                        idempotency.store_error_response(session, context, lease, error)
                    return error
                if lease is not None:
                    keys.complete_key(session, lease=lease, response=response, now=context.services.clock())
                return response

        outcome = run_with_retries(attempt)
        if isinstance(outcome, MarketplaceError):
            raise outcome
        return outcome

    def _render(self, context: Context, value: Any) -> StoredResponse:
        status = self.contract.status
        if isinstance(value, WithStatus):
            value, status = value.value, value.status
        data, meta = self._data_and_meta(context, value)
        body = dump_json(data)
        if self.contract.enveloped:
            body = envelope(
                data=body,
                paging=dump_members(meta) if meta else b"",
                request_id=str(context.request_id),
                now=context.now,
            )
        return StoredResponse(status, JSON_TYPE, body)

    def _data_and_meta(self, context: Context, value: Any) -> tuple[Any, dict[str, Any]]:
        """Render the data of a view's result, and collect the fields of ``meta``."""
        data, meta = value, {}
        if isinstance(value, Page):
            data = value.items if value.data is None else value.data
            meta = paging.page_meta(context, value)
        elif isinstance(value, TablePage):
            data, meta = value.items, paging.table_meta(context, value)
        elif isinstance(value, DataWithMeta):
            data, meta = value.data, value.meta
        return data if self._renderer is None else self._renderer(data), self._meta_renderer(meta)


class ContractBlueprint(Blueprint):  # type: ignore[misc]
    """A blueprint of routes under contract. ``documentation`` describes contracts and views in OpenAPI."""

    def __init__(self, name: str, prefix: str, description: str) -> None:
        super().__init__(name, name, url_prefix=prefix, description=description)
        self.contracts: list[Contract] = []
        self.views: list[View] = []

    def route_under_contract(
        self,
        method: str,
        rule: str,
        *,
        auth: Access,
        limit: SharedLimit | str | RouteLimit,
        body: type[Schema] | Schema | None = None,
        upload: Upload | None = None,
        query: type[Schema] | None = None,
        reply: type[Schema] | Schema | None = None,
        meta: type[MetaSchema] | None = None,
        choices: Mapping[str, Sequence[str]] | None = None,
        status: int = 200,
        idempotent: Idempotency = Idempotency.NONE,
        cache: int = 0,
        tags: tuple[str, ...] = (),
        phased: bool = False,
        autocommit: bool = False,
        enveloped: bool = True,
        csv: bool = False,
        pdf: bool = False,
        plain: bool = False,
        event_stream: bool = False,
        group: ProcessGroup | None = None,
        raises: tuple[type[MarketplaceError], ...] = (),
        wait_seconds: float | None = None,
        further_statuses: tuple[int, ...] = (),
        max_body_bytes: int = MAX_BODY_BYTES,
        headers: tuple[str, ...] = (),
        deprecation: Deprecation | None = None,
    ) -> Callable[[View], View]:
        """Declare a route by its contract. ``auth`` and ``limit`` have no defaults.

        :param rule: path below the area's prefix
        :param auth: callers that the route admits
        :param limit: a tier, no limit, or the route's own quota, such as ``10/minute``
        :param body: schema of the JSON body, which the view gets as ``body``
        :param upload: file instead of a JSON body, which the view gets as ``file``
        :param query: schema of the parameters, which the view gets as ``query``
        :param reply: schema of ``data``
        :param meta: schema of ``meta``, if it has more fields than the query's kind of paging implies
        :param choices: path segments that accept only certain words. Other words are refused with 422
        :param status: HTTP status of success
        :param idempotent: treatment of the Idempotency-Key header
        :param cache: lifetime of shared cached responses in seconds; 0 disables caching
        :param tags: cache tags that invalidate the cached responses
        :param phased: the view opens its own transactions, because it calls a provider between them
        :param autocommit: the view runs a single statement, which commits by itself
        :param enveloped: wrap a successful response in the envelope
        :param csv: the route can also answer ``text/csv``
        :param pdf: the route can also answer ``application/pdf``
        :param plain: the route answers plain text instead of JSON
        :param event_stream: the route answers a stream of server-sent events
        :param group: processes that serve the route. By default the waiting group serves phased routes
        :param raises: the domain's errors that the view can raise, except those that other terms imply
        :param wait_seconds: longest wait for a statement, if it differs from the limit of the kind of session
        :param further_statuses: statuses, beside ``status``, that have the same reply
        :param max_body_bytes: limit of a JSON body
        :param headers: further headers of a successful response
        :param deprecation: the announced end of the route
        """

        def decorate(view: View) -> View:
            name = f"{self.name}.{view.__name__}"
            contract = Contract(
                name=name,
                method=method,
                path=f"{self.url_prefix or ''}{rule}",
                choices=tuple((name, tuple(words)) for name, words in (choices or {}).items()),
                access=auth,
                limit=RouteLimit(limit, scope=name) if isinstance(limit, str) else limit,
                body=_schema_instance(body),
                upload=upload,
                query=_schema_instance(query),
                reply=_schema_instance(reply),
                meta=meta or paging.meta_schema_for(_schema_instance(query)),
                status=status,
                idempotency=idempotent,
                cache_seconds=cache,
                cache_tags=tags,
                phased=phased,
                autocommit=autocommit,
                enveloped=enveloped,
                csv=csv,
                pdf=pdf,
                plain=plain,
                event_stream=event_stream,
                group=group or (ProcessGroup.WAITING if phased else ProcessGroup.API),
                raises=raises,
                wait_seconds=wait_seconds,
                further_statuses=further_statuses,
                max_body_bytes=max_body_bytes,
                headers=headers,
                deprecation=deprecation,
            )
            self.contracts.append(contract)
            self.views.append(view)
            # flask-smorest's own method would describe the route immediately.
            FlaskBlueprint.add_url_rule(self, rule, view.__name__, Endpoint(contract, view), methods=[method])
            return view

        return decorate

    get = partialmethod(route_under_contract, "GET")
    post = partialmethod(route_under_contract, "POST")
    put = partialmethod(route_under_contract, "PUT")
    delete = partialmethod(route_under_contract, "DELETE")


def _schema_instance(schema: type[Schema] | Schema | None) -> Schema | None:
    return schema() if isinstance(schema, type) else schema
