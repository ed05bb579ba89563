"""State machines: the mechanics, once. Each area keeps its own table of transitions in its ``states.py``."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from marketplace.kernel.errors import ConflictError


@dataclass(frozen=True)
class Transition:
    """One row of a table: who may fire which trigger from which states, and where it leads.

    ``actors`` are the roles that a client is offered the trigger as; a trigger of the system has none.
    ``otherwise`` tells people what to do where it can't be fired.
    """

    trigger: str
    sources: tuple[str, ...]
    target: str
    actors: tuple[str, ...] = ()
    advice: str | None = None


class IllegalTransitionError(ConflictError):
    """The current state does not allow this transition."""

    reason = "transition-not-allowed"


@dataclass(frozen=True)
class StateMachine:
    """A table of transitions between named states."""

    name: str
    initial: str
    transitions: tuple[Transition, ...]

    @cached_property
    def _targets(self) -> dict[tuple[str, str], str]:
        targets: dict[tuple[str, str], str] = {}
        for row in self.transitions:
            for source in row.sources:
                if targets.setdefault((source, row.trigger), row.target) != row.target:
                    raise ValueError(f"{self.name}: {row.trigger} leads from {source} to two states")
        return targets

    @cached_property
    def states(self) -> frozenset[str]:
        """Give all states of the machine."""
        named = (state for row in self.transitions for state in (*row.sources, row.target))
        return frozenset((self.initial, *named))

    @cached_property
    def final_states(self) -> frozenset[str]:
        """Give the states that nothing leads out of."""
        return self.states - {source for row in self.transitions for source in row.sources}

    @cached_property
    def triggers(self) -> frozenset[str]:
        """Give all triggers of the machine."""
        return frozenset(row.trigger for row in self.transitions)

    def allows(self, state: str, trigger: str) -> bool:
        """Tell whether a trigger can be fired from a state."""
        return (state, trigger) in self._targets

    def target(self, state: str, trigger: str) -> str:
        """Give the state that a trigger leads to.

        :raises IllegalTransitionError: the trigger can't be fired from this state; the detail names the
            state and those that it would take
        """
        target = self._targets.get((state, trigger))
        if target is None:
            rows = [row for row in self.transitions if row.trigger == trigger]
            takes = " or ".join(source for row in rows for source in row.sources) or "no state at all"
            advice = "".join(f" {row.advice}" for row in rows if row.advice)
            raise IllegalTransitionError(
                f"The {self.name} is {state}; {trigger} takes one that is {takes}.{advice}"
            )
        return target

    def triggers_for(self, state: str, actors: Iterable[str]) -> list[str]:
        """List what somebody may do in a state, in the table's order.

        :param state: the current state
        :param actors: the roles that the caller has towards the resource
        :return: names of triggers, none twice
        """
        roles = frozenset(actors)
        return list(
            dict.fromkeys(
                row.trigger
                for row in self.transitions
                if state in row.sources and roles & frozenset(row.actors)
            )
        )

    def diagram(self) -> str:
        """Draw the machine as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial}"]
        lines += [
            f"    {source} --> {row.target}: {row.trigger}"
            for row in self.transitions
            for source in row.sources
        ]
        lines += [f"    {state} --> [*]" for state in sorted(self.final_states)]
        return "\n".join(lines)
