"""All areas, in the order of the specification."""

from blueprints.health.routes import area as health
from blueprints.http.contract import Contract
from blueprints.http.endpoint import Area

AREAS: tuple[Area, ...] = (health,)


def contracts() -> list[Contract]:
    """This function will give the contracts of all routes."""
    return [contract for area in AREAS for contract in area.contracts]
