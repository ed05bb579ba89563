"""Routes of erasures, for compliance staff."""

from typing import Any
from uuid import UUID

from blueprints.http import (
    COMPLIANCE_STAFF,
    COMPLIANCE_STAFF_AAL2,
    PUBLIC,
    Context,
    ContractBlueprint,
    SharedLimit,
)
from blueprints.privacy.erasure_schemas import (
    ErasureExecutionView,
    ErasurePlanView,
    ExecuteErasure,
    MakeErasurePlan,
    SigningKeyView,
)
from marketplace.audit import signatures
from marketplace.infra.waits.limits import LONG_WAIT_SECONDS
from marketplace.kernel.errors import ConflictOfInterestError, NotFoundError
from marketplace.models import metadata
from marketplace.privacy import erasure, erasure_plans
from marketplace.privacy.models import ErasureExecution, ErasurePlan

area = ContractBlueprint("erasures", "/api/privacy", "Erasure of personal data, for staff")


@area.post(
    "/erasure-plans",
    auth=COMPLIANCE_STAFF,
    limit="10/minute",
    body=MakeErasurePlan,
    reply=ErasurePlanView,
    status=201,
    wait_seconds=LONG_WAIT_SECONDS,
    raises=(NotFoundError, ConflictOfInterestError, erasure_plans.AccountAlreadyErasedError),
)
def make_erasure_plan(ctx: Context, body: dict[str, Any]) -> ErasurePlan:
    """Make the plan of an erasure: the person's rows by table with their treatment, and the blockers.

    Send `planId` and `hash` to `POST /api/privacy/erasure-executions`.
    The plan is valid until the person's data change.
    """
    return erasure_plans.make_plan(ctx.session, tables=metadata.tables, user_id=body["user_id"], act=ctx.act)


@area.post(
    "/erasure-executions",
    auth=COMPLIANCE_STAFF_AAL2,
    limit="5/minute",
    body=ExecuteErasure,
    reply=ErasureExecutionView,
    status=202,
    wait_seconds=LONG_WAIT_SECONDS,
    raises=(
        NotFoundError,
        ConflictOfInterestError,
        erasure.PlanChangedError,
        erasure.ErasureBlockedError,
        erasure_plans.AccountAlreadyErasedError,
    ),
)
def execute_erasure(ctx: Context, body: dict[str, Any]) -> ErasureExecution:
    """Execute a plan. The account is closed at once, and a worker erases the data within minutes.

    An erasure cannot be undone. A repeated request returns the same execution.
    """
    return erasure.start_erasure(
        ctx.session, tables=metadata.tables, plan_id=body["plan_id"], plan_hash=body["hash"], act=ctx.act
    )


@area.get(
    "/erasure-executions/<uuid:execution_id>",
    auth=COMPLIANCE_STAFF,
    limit=SharedLimit.CALLER_TIER,
    reply=ErasureExecutionView,
    raises=(NotFoundError,),
)
def get_erasure_execution(ctx: Context, execution_id: UUID) -> ErasureExecution:
    """Get the progress of an erasure, and the signed receipt after its end."""
    return erasure.show_execution(ctx.session, execution_id=execution_id)


@area.get("/signing-key", auth=PUBLIC, limit=SharedLimit.CALLER_TIER, reply=SigningKeyView)
def get_signing_key(_ctx: Context) -> dict[str, str]:
    """Get the public key that verifies receipts of erasures and anchors of the audit trail."""
    return {
        "key_id": signatures.public_key_id(),
        "algorithm": signatures.ALGORITHM,
        "public_key": signatures.public_key_pem(),
    }
