"""Generate the parts of the documentation that come from the code: ``python docs/generate.py``.

A generated part stands between ``<!-- generated:NAME -->`` and ``<!-- /generated -->``. A test compares each
part with the code.
"""

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from flask import Flask

from blueprints.areas import contracts
from blueprints.http.contract import Contract, Idempotency
from blueprints.http.documentation.operations import documented_limit, documented_path
from blueprints.http.documentation.responses import error_meaning, error_status
from marketplace.alerts.kinds import ALERT_KINDS
from marketplace.catalog import states as catalog_states
from marketplace.health.budgets import BURN_RULES
from marketplace.health.objectives import OBJECTIVES
from marketplace.infra.settings import Settings, variable_name
from marketplace.kernel.errors import CATALOG
from marketplace.kernel.states import StateMachine
from marketplace.models import metadata
from marketplace.orders import states as order_states
from marketplace.payments import states as payment_states
from marketplace.payouts import states as payout_states
from marketplace.payouts.batches.detail import RISK_FLAGS
from marketplace.privacy import register
from marketplace.proposals import states as proposal_states
from marketplace.referrals import states as referral_states
from sandbox.providers.gateway.app import register_routes
from tasks.all_tasks import PERIODIC_TASKS

PROJECT = Path(__file__).resolve().parents[1]
PART = re.compile(r"(<!-- generated:([\w-]+) -->\n)(.*?)(<!-- /generated -->)", re.DOTALL)


def documents() -> list[Path]:
    """List all documents of the project."""
    return sorted(
        [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "deploy").rglob("*.md")]
    )


def generated(text: str) -> str:
    """Replace the generated parts of a document with the code's current output.

    :param text: the document
    :raises KeyError: no generated part has the requested name
    """
    return PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}\n{found[4]}", text)


def _diagram(machine: StateMachine) -> str:
    return f"```mermaid\n{machine.diagram()}\n```"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def _settings(asked_for: "Callable[[Field[Any]], bool]") -> str:
    rows = []
    for item in fields(Settings):
        if asked_for(item):
            default = ",".join(item.default) if isinstance(item.default, tuple) else str(item.default)
            doc = item.metadata["doc"] + (" Secret." if item.metadata["secret"] else "")
            rows.append((f"`{variable_name(item.name)}`", doc, f"`{default}`" if default else ""))
    return _table(("Variable", "Meaning", "Default"), rows)


def _periodic_tasks() -> str:
    return _table(
        ("Task", "Purpose", "Queue", "Schedule"),
        (
            (f"`{task.name}`", task.purpose, f"`{task.queue}`", task.schedule.description)
            for task in PERIODIC_TASKS
        ),
    )


def _alerts() -> str:
    return "\n\n".join(
        "\n".join(
            [
                f"### `{identifier}`",
                "",
                f"{kind.severity}. Subject: {kind.subject_description}. Resolve by hand with `{kind.permission}`.",
                "",
                kind.meaning,
                "",
                # The numbered steps of one text, as a list.
                *re.split(r" (?=\d\. )", kind.first_step),
                "",
                kind.resolution_rule,
            ]
        )
        for identifier, kind in ALERT_KINDS.items()
    )


def _errors() -> str:
    return _table(
        ("Code", "Status", "Meaning"),
        ((f"`{code}`", str(entry.status), entry.meaning) for code, entry in CATALOG.items()),
    )


def _reasons() -> str:
    errors = {error for contract in contracts() for error in contract.errors if error.reason}
    return _table(
        ("Reason", "Code", "Status", "Meaning"),
        (
            (f"`{error.reason}`", f"`{error.code}`", str(error_status(error)), error_meaning(error))
            for error in sorted(errors, key=lambda error: str(error.reason))
        ),
    )


def _personal_tables() -> str:
    return _table(
        ("Area", "Table", "Personal columns", "Purpose", "Basis", "Erasure", "Kept"),
        (
            (
                rule.area,
                f"`{name}`",
                ", ".join(
                    f"`{column.name}`"
                    for column in metadata.tables[name].columns
                    if "personal" in column.info
                ),
                rule.purpose,
                rule.basis,
                rule.on_erasure,
                f"{rule.retention.days} days" if rule.retention.days else "while the account exists",
            )
            for name, rule in register.PERSONAL_TABLES.items()
        ),
    )


def _personal_keys() -> str:
    return _table(
        ("Place", "Prefix", "Purpose", "Erasure", "Ends"),
        (
            (place, f"`{keys.prefix}`", keys.purpose, keys.on_erasure, keys.ends)
            for place, group in (("objects", register.OBJECTS), ("cache", register.CACHE_KEYS))
            for keys in group
        ),
    )


def _unlinked_tables() -> str:
    tables = {**register.UNLINKED_TABLES, **register.STAFF_TEXTS}
    return _table(("Table", "Content"), ((f"`{name}`", text) for name, text in tables.items()))


def _routes() -> str:
    return _table(
        ("Route", "Access", "Rate limit", "Cached for", "Idempotency-Key"),
        (
            (
                f"`{contract.method} {_path(contract)}`",
                contract.access.name,
                documented_limit(contract),
                f"{contract.cache_seconds} s" if contract.cache_seconds else "",
                "" if contract.idempotency is Idempotency.NONE else contract.idempotency.value,
            )
            for contract in contracts()
        ),
    )


def _objectives() -> str:
    return _table(
        ("Name", "Objective", "Target", "Window"),
        (
            (
                f"`{name}`",
                objective.title + (f", {objective.threshold_ms} ms" if objective.threshold_ms else ""),
                f"{100 * objective.target:g} %",
                f"{objective.window.days} d",
            )
            for name, objective in OBJECTIVES.items()
        ),
    )


def _burn_rules() -> str:
    return _table(
        ("Severity", "Times too fast", "Long window", "Short window"),
        ((rule.severity, f"{rule.factor:g}", rule.long, rule.short) for rule in BURN_RULES),
    )


def _deprecated_routes() -> str:
    announced = [(contract, contract.deprecation) for contract in contracts() if contract.deprecation]
    if not announced:
        return "No route is deprecated at the moment."
    return _table(
        ("Route", "Announced", "Sunset", "Replacement"),
        (
            (
                f"`{contract.method} {_path(contract)}`",
                end.since.isoformat(),
                end.sunset.isoformat(),
                f"[guide]({end.guide})",
            )
            for contract, end in announced
        ),
    )


def _sandbox_gateway_endpoints(*, controls: bool) -> str:
    """Describe the sandbox gateway's endpoints: the real gateway's, or the sandbox's own controls."""
    app = Flask("documentation", static_folder=None)
    register_routes(app)
    rows = []
    for rule in app.url_map.iter_rules():
        if (rule.endpoint.partition(".")[0] in ("controls", "payment_page")) == controls:
            purpose = (app.view_functions[rule.endpoint].__doc__ or "").partition("\n")[0]
            path = re.sub(r"<(?:\w+(?:\([^)]*\))?:)?(\w+)>", r"{\1}", rule.rule)
            methods = sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
            rows += [(path, method, purpose) for method in methods]
    return _table(
        ("Endpoint", "Purpose"), [(f"`{method} {path}`", purpose) for path, method, purpose in sorted(rows)]
    )


def _path(contract: Contract) -> str:
    return documented_path(contract).replace("{", ":").replace("}", "")


PARTS: dict[str, Callable[[], str]] = {
    "listing-states": lambda: _diagram(catalog_states.PRODUCT),
    "order-states": lambda: _diagram(order_states.ORDER),
    "escrow-states": lambda: _diagram(order_states.ESCROW),
    "intent-states": lambda: _diagram(payment_states.INTENT),
    "refund-states": lambda: _diagram(payment_states.REFUND),
    "batch-states": lambda: _diagram(payout_states.BATCH),
    "payout-states": lambda: _diagram(payout_states.PAYOUT),
    "payout-risks": lambda: _table(
        ("Risk flag", "Meaning"), [(f"`{risk}`", meaning) for risk, meaning in RISK_FLAGS.items()]
    ),
    "proposal-states": lambda: _diagram(proposal_states.PROPOSAL),
    "referral-states": lambda: _diagram(referral_states.REFERRAL),
    "required-settings": lambda: _settings(lambda item: item.metadata["required"]),
    "further-settings": lambda: _settings(lambda item: not item.metadata["required"]),
    "periodic-tasks": _periodic_tasks,
    "alerts": _alerts,
    "errors": _errors,
    "reasons": _reasons,
    "routes": _routes,
    "objectives": _objectives,
    "burn-rules": _burn_rules,
    "deprecated-routes": _deprecated_routes,
    "personal-tables": _personal_tables,
    "personal-keys": _personal_keys,
    "unlinked-tables": _unlinked_tables,
    "sandbox-gateway-endpoints": lambda: _sandbox_gateway_endpoints(controls=False),
    "sandbox-gateway-controls": lambda: _sandbox_gateway_endpoints(controls=True),
}


def main() -> int:
    """Update all documents and print the name of each changed document."""
    for path in documents():
        text = path.read_text(encoding="utf-8")
        wanted = generated(text)
        if wanted != text:
            path.write_text(wanted, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(PROJECT)} updated\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
