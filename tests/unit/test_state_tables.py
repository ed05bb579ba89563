"""The tables of states: what they allow, and that they refuse all else with a reason that helps."""

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
def test_an_illegal_transition_is_refused_naming_the_state_and_what_it_takes(
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
def test_every_row_leads_where_it_says(machine: StateMachine) -> None:
    for row in machine.transitions:
        for source in row.sources:
            assert machine.allows(source, row.trigger)
            assert machine.target(source, row.trigger) == row.target


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_state_can_be_reached(machine: StateMachine) -> None:
    reached, found = set(), {machine.initial}
    while found - reached:
        reached |= found
        found |= {row.target for row in machine.transitions if reached & set(row.sources)}

    assert reached == machine.states


def test_an_unknown_trigger_is_refused() -> None:
    with pytest.raises(IllegalTransitionError, match="teleport is not one of its actions"):
        order_states.ORDER.target("shipped", "teleport")


def test_a_finished_order_stays_as_it_is() -> None:
    assert order_states.ORDER.final_states == {"delivered", "cancelled", "expired", "refunded"}


def test_each_party_is_offered_its_own_triggers() -> None:
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


def test_every_state_has_a_delivery_status_and_the_pin_only_where_it_is_of_use() -> None:
    told = {
        status: order_states.delivery_status(status, was_shipped=True) for status in order_states.ORDER.states
    }
    assert set(told.values()) == order_states.DELIVERY_STATUSES
    assert (told["refunded"], told["disputed"]) == ("returned", "in_transit")
    assert order_states.delivery_status("refunded", was_shipped=False) == "not_started"
    assert order_states.delivery_status("disputed", was_shipped=False) == "not_started"
    assert {"paid_escrow", "processing", "shipped"} == order_states.PIN_VISIBLE_STATES


def test_a_table_that_contradicts_itself_is_refused() -> None:
    machine = StateMachine(
        name="lamp",
        initial="off",
        transitions=(Transition("press", ("off",), "on"), Transition("press", ("off",), "broken")),
    )

    with pytest.raises(ValueError, match="leads from off to two states"):
        machine.target("off", "press")


def test_the_diagram_shows_each_row() -> None:
    lines = order_states.ORDER.diagram().splitlines()

    assert lines[:2] == ["stateDiagram-v2", "    [*] --> pending_payment"]
    assert "    shipped --> delivered: verify-code" in lines
    assert "    delivered --> [*]" in lines
