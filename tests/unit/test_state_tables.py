"""State machines: allowed transitions, and helpful refusals of all others."""

import itertools

import pytest

from marketplace.kernel.states import IllegalTransitionError, StateMachine, Transition
from marketplace.orders import states as order_states
from marketplace.payments.states import INTENT, REFUND

MACHINES = (order_states.ORDER, order_states.ESCROW, INTENT, REFUND)
ILLEGAL = [
    (machine, state, trigger)
    for machine in MACHINES
    for state, trigger in itertools.product(sorted(machine.states), sorted(machine.triggers))
    if not machine.allows(state, trigger)
]


@pytest.mark.parametrize(
    ("machine", "state", "trigger"), ILLEGAL, ids=[f"{m.name}-{s}-{t}" for m, s, t in ILLEGAL]
)
def test_illegal_transition_is_refused_with_current_and_required_states(
    machine: StateMachine, state: str, trigger: str
) -> None:
    with pytest.raises(IllegalTransitionError) as refused:
        machine.target(state, trigger)

    assert refused.value.status == 409
    assert refused.value.code == "CONCURRENCY_CONFLICT"
    assert f"The {machine.name} is {state}, but {trigger} requires" in refused.value.detail
    for row in machine.transitions:
        if row.trigger == trigger:
            assert all(source in refused.value.detail for source in row.sources)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_transition_leads_to_declared_target(machine: StateMachine) -> None:
    for row in machine.transitions:
        for source in row.sources:
            assert machine.allows(source, row.trigger)
            assert machine.target(source, row.trigger) == row.target


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_state_is_reachable(machine: StateMachine) -> None:
    reached, found = set(), {machine.initial}
    while found - reached:
        reached |= found
        found |= {row.target for row in machine.transitions if reached & set(row.sources)}

    assert reached == machine.states


def test_unknown_trigger_is_refused() -> None:
    with pytest.raises(IllegalTransitionError, match="teleport is not one of its actions"):
        order_states.ORDER.target("shipped", "teleport")


def test_final_states_of_order_are_listed() -> None:
    assert order_states.ORDER.final_states == {"delivered", "cancelled", "expired", "refunded"}


def test_each_role_is_offered_only_allowed_triggers() -> None:
    offered = {
        (state, role): order_states.ORDER.triggers_for(state, [role])
        for state in order_states.ORDER.states
        for role in ("buyer", "vendor", "staff")
    }

    assert {key: triggers for key, triggers in offered.items() if triggers} == {
        ("pending_payment", "buyer"): ["pay", "cancel"],
        ("pending_payment", "vendor"): ["cancel"],
        ("paid_escrow", "buyer"): ["cancel"],
        ("paid_escrow", "vendor"): ["cancel", "accept"],
        ("processing", "buyer"): ["cancel"],
        ("processing", "vendor"): ["cancel", "ship"],
        ("shipped", "buyer"): ["confirm"],
        ("shipped", "vendor"): ["verify-code"],
    }


def test_every_state_has_a_delivery_status_and_pin_is_visible_only_before_delivery() -> None:
    delivery_statuses = {
        status: order_states.delivery_status(status, was_shipped=True) for status in order_states.ORDER.states
    }
    assert set(delivery_statuses.values()) == order_states.DELIVERY_STATUSES
    assert (delivery_statuses["refunded"], delivery_statuses["disputed"]) == ("returned", "in_transit")
    assert order_states.delivery_status("refunded", was_shipped=False) == "not_started"
    assert order_states.delivery_status("disputed", was_shipped=False) == "not_started"
    assert {"paid_escrow", "processing", "shipped"} == order_states.PIN_VISIBLE_STATES


def test_contradicting_transitions_are_refused() -> None:
    machine = StateMachine(
        name="lamp",
        initial="off",
        transitions=(Transition("press", ("off",), "on"), Transition("press", ("off",), "broken")),
    )

    with pytest.raises(ValueError, match="leads from off to two states"):
        machine.target("off", "press")


def test_diagram_shows_each_transition() -> None:
    lines = order_states.ORDER.diagram().splitlines()

    assert lines[:2] == ["stateDiagram-v2", "    [*] --> pending_payment"]
    assert "    shipped --> delivered: verify-code" in lines
    assert "    delivered --> [*]" in lines
