"""State machines. The ``states.py`` of each area defines its table of transitions."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from marketplace.kernel import texts
from marketplace.kernel.errors import ConflictError


@dataclass(frozen=True)
class Transition:
    """A transition from source states to a target state by a trigger.

    ``actors`` are the roles that clients offer the trigger to. Triggers of the system have no actors.
    ``advice`` is the next step for people if the current state does not allow the trigger.
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
    """A state machine with a table of transitions between named states."""

    name: str
    initial: str
    transitions: tuple[Transition, ...]

    @cached_property
    def _targets(self) -> dict[tuple[str, str], str]:
        targets: dict[tuple[str, str], str] = {}
        for row in self.transitions:
            for source in row.sources:
                if targets.setdefault((source, row.trigger), row.target) != row.target:
                    raise ValueError(f"{row.trigger} leads from {source} to two states of {self.name}")
        return targets

    @cached_property
    def states(self) -> frozenset[str]:
        """All states of the machine."""
        named = (state for row in self.transitions for state in (*row.sources, row.target))
        return frozenset((self.initial, *named))

    @cached_property
    def final_states(self) -> frozenset[str]:
        """The states without outgoing transitions."""
        return self.states - {source for row in self.transitions for source in row.sources}

    @cached_property
    def triggers(self) -> frozenset[str]:
        """All triggers of the machine."""
        return frozenset(row.trigger for row in self.transitions)

    def allows(self, state: str, trigger: str) -> bool:
        """Return whether a state allows a trigger."""
        return (state, trigger) in self._targets

    def target(self, state: str, trigger: str) -> str:
        """Return the target state of a trigger.

        :raises IllegalTransitionError: the state does not allow the trigger; the detail names the allowed states
        """
        target = self._targets.get((state, trigger))
        if target is None:
            rows = [row for row in self.transitions if row.trigger == trigger]
            sources = " or ".join(source for row in rows for source in row.sources)
            refusal = texts.TRANSITION_NOT_ALLOWED if sources else texts.TRANSITION_UNKNOWN
            sentences = [
                refusal.format(machine=self.name, state=state, trigger=trigger, sources=sources),
                *(row.advice for row in rows if row.advice),
            ]
            raise IllegalTransitionError(" ".join(sentences))
        return target

    def triggers_for(self, state: str, actors: Iterable[str]) -> list[str]:
        """List the triggers that a state and the caller's roles allow, in the order of the table.

        :param actors: the caller's roles towards the resource
        :return: distinct triggers
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
