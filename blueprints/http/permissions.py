"""The sets of staff that routes are open to, by permission."""

from dataclasses import dataclass, replace

from blueprints.http.contract import STAFF, VENDOR_OR_STAFF, Access, TokenPolicy
from marketplace.identity.permissions import MANAGE_FINANCES, MANAGE_ORDERS, MANAGE_PLATFORM, MANAGE_PRODUCTS
from marketplace.identity.queries import Caller
from marketplace.kernel.errors import MarketplaceError


def _staff_with(permission: str, *, aal2: bool = False) -> Access:
    name = f"Staff ({permission}{', AAL2' if aal2 else ''})"
    return Access(name, TokenPolicy.REQUIRED, permission=permission, aal2=aal2)


STAFF_AAL2 = replace(STAFF, name="Staff (AAL2)", aal2=True)
FINANCE = _staff_with(MANAGE_FINANCES)
FINANCE_AAL2 = _staff_with(MANAGE_FINANCES, aal2=True)
ORDER_STAFF = _staff_with(MANAGE_ORDERS)
PLATFORM_STAFF = _staff_with(MANAGE_PLATFORM)
PLATFORM_STAFF_AAL2 = _staff_with(MANAGE_PLATFORM, aal2=True)
PRODUCT_STAFF = _staff_with(MANAGE_PRODUCTS)


@dataclass(frozen=True)
class _VendorOrFinance(Access):
    """A vendor, or an officer of finance with two factors."""

    @property
    def errors(self) -> tuple[type[MarketplaceError], ...]:
        """The refusals of ``ensure_allowed`` that have a reason."""
        return (*super().errors, *FINANCE_AAL2.errors)

    def ensure_allowed(self, caller: Caller) -> None:
        """Hold a caller against what their role takes.

        :raises ForbiddenError: the account's status, its role or its permissions don't allow it
        :raises StepUpRequiredError: an officer's assurance level is too low
        """
        super().ensure_allowed(caller)
        if caller.is_staff:
            FINANCE_AAL2.ensure_allowed(caller)


VENDOR_OR_FINANCE_AAL2 = _VendorOrFinance(
    "Vendor, or Staff (canManageFinances, AAL2)", TokenPolicy.REQUIRED, roles=VENDOR_OR_STAFF.roles
)
