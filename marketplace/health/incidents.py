"""Announce incidents on the status page, with notes until the resolution."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import func, or_, select, tuple_
from sqlalchemy.orm import Session

from marketplace.audit.operations import Act, record_audit_entry
from marketplace.health import texts
from marketplace.health.models import Incident, IncidentNote
from marketplace.infra.cache import drop_cached
from marketplace.kernel.clock import iso
from marketplace.kernel.errors import ConflictError, found
from marketplace.kernel.paging import Page, PageRequest, page_of
from marketplace.platform import cache_tags

# Ordered from least to worst.
CRITICAL = "critical"
IMPACTS = ("minor", "major", CRITICAL)
RESOLVED = "resolved"
# In the usual order. Staff may return to an earlier status.
NOTE_STATUSES = ("investigating", "identified", "monitoring", RESOLVED)
# The status page shows open incidents, and resolved incidents for this time.
SHOWN_AFTER_RESOLUTION = timedelta(days=7)
MAX_SHOWN = 20


class IncidentResolvedError(ConflictError):
    """The incident is resolved and takes no further notes."""

    reason = "incident-resolved"


@dataclass(frozen=True)
class IncidentReport:
    """An incident with its notes, the latest first."""

    incident: Incident
    notes: Sequence[IncidentNote]

    @property
    def status(self) -> str:
        """The status of the latest note, or ``resolved`` after the resolution."""
        return RESOLVED if self.incident.resolved_at is not None else self.notes[0].status


def open_incident(
    session: Session, *, title: str, impact: str, components: Sequence[str], message: str, act: Act
) -> IncidentReport:
    """Announce an incident with a first note.

    :param impact: a value of ``IMPACTS``
    :param components: the affected components, whose public status becomes worse
    """
    incident = Incident(title=title, impact=impact, components=sorted(set(components)), started_at=act.now)
    session.add(incident)
    session.flush()
    _add_note(session, incident, status=NOTE_STATUSES[0], message=message, act=act)
    record_audit_entry(
        session,
        act=act,
        action="incident.open",
        target_type="incident",
        target_id=str(incident.id),
        after={"title": title, "impact": impact, "components": incident.components},
    )
    drop_cached(session, cache_tags.STATUS)
    return show_incident(session, incident_id=incident.id)


def add_incident_note(
    session: Session, *, incident_id: UUID, status: str, message: str, act: Act
) -> IncidentReport:
    """Add a note to an open incident. A note with the status ``resolved`` resolves the incident.

    :raises NotFoundError: no such incident
    :raises IncidentResolvedError: the incident is resolved
    """
    incident = found(
        session.get(Incident, incident_id, with_for_update=True, populate_existing=True),
        texts.INCIDENT_NOT_FOUND,
    )
    if incident.resolved_at is not None:
        raise IncidentResolvedError(texts.INCIDENT_RESOLVED)
    if status == RESOLVED:
        incident.resolved_at = act.now
    note = _add_note(session, incident, status=status, message=message, act=act)
    record_audit_entry(
        session,
        act=act,
        action="incident.note",
        target_type="incident",
        target_id=str(incident_id),
        after={"noteId": str(note.id), "status": status},
    )
    drop_cached(session, cache_tags.STATUS)
    return show_incident(session, incident_id=incident_id)


def _add_note(session: Session, incident: Incident, *, status: str, message: str, act: Act) -> IncidentNote:
    # Requests get the lock of the incident in another order than their times.
    latest = session.scalar(
        select(func.max(IncidentNote.created_at)).where(IncidentNote.incident_id == incident.id)
    )
    note = IncidentNote(
        incident_id=incident.id,
        status=status,
        message=message,
        author_id=act.person_id,
        created_at=max(act.now, latest or act.now),
    )
    session.add(note)
    session.flush()
    return note


def show_incident(session: Session, *, incident_id: UUID) -> IncidentReport:
    """Show an incident.

    :raises NotFoundError: no such incident
    """
    [report] = _with_notes(session, [found(session.get(Incident, incident_id), texts.INCIDENT_NOT_FOUND)])
    return report


def list_incidents(session: Session, *, page: PageRequest) -> Page:
    """List incidents with notes, the latest first.

    :param page: a position holds the last row's time and id
    """
    last_at, last_id = page.after("time", "id")
    clause = select(Incident).order_by(Incident.started_at.desc(), Incident.id.desc())
    if last_at is not None:
        position = tuple_(Incident.started_at, Incident.id)
        clause = clause.where(position < (datetime.fromisoformat(last_at), UUID(last_id)))
    incidents = list(session.scalars(clause.limit(page.limit + 1)))
    return page_of(
        _with_notes(session, incidents),
        request=page,
        position_of=lambda report: [iso(report.incident.started_at), str(report.incident.id)],
    )


def list_shown_incidents(session: Session, *, now: datetime) -> list[IncidentReport]:
    """List the incidents of the status page: open incidents first, then the latest."""
    clause = (
        select(Incident)
        .where(or_(Incident.resolved_at.is_(None), Incident.resolved_at > now - SHOWN_AFTER_RESOLUTION))
        .order_by(Incident.resolved_at.is_not(None), Incident.started_at.desc(), Incident.id.desc())
        .limit(MAX_SHOWN)
    )
    return _with_notes(session, list(session.scalars(clause)))


def _with_notes(session: Session, incidents: Sequence[Incident]) -> list[IncidentReport]:
    if not incidents:
        return []
    clause = (
        select(IncidentNote)
        .where(IncidentNote.incident_id.in_([incident.id for incident in incidents]))
        .order_by(IncidentNote.created_at.desc(), IncidentNote.id.desc())
    )
    notes: dict[UUID, list[IncidentNote]] = {incident.id: [] for incident in incidents}
    for note in session.scalars(clause):
        notes[note.incident_id].append(note)
    return [IncidentReport(incident, notes[incident.id]) for incident in incidents]
