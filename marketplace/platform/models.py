"""Tables of the platform: settings, campuses and their places."""

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import ForeignKey, Numeric, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from marketplace.infra.db import Base, CreatedAt, Id


class PlatformSetting(Base):
    """A setting that officers change while the service runs, such as a fee."""

    __tablename__ = "platform_settings"

    key: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[Any] = mapped_column(JSONB)
    description: Mapped[str]
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    updated_at: Mapped[CreatedAt]


class Campus(Base):
    """A campus of the university."""

    __tablename__ = "campuses"

    id: Mapped[Id]
    name: Mapped[str]
    slug: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[CreatedAt]


class CampusEmailDomain(Base):
    """An e-mail domain whose holders belong to a campus."""

    __tablename__ = "campus_email_domains"

    domain: Mapped[str] = mapped_column(primary_key=True)
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), index=True)


class Hostel(Base):
    """A hall of residence."""

    __tablename__ = "hostels"

    id: Mapped[Id]
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), index=True)
    name: Mapped[str]


class Hub(Base):
    """A place where orders are picked up."""

    __tablename__ = "hubs"

    id: Mapped[Id]
    campus_id: Mapped[UUID] = mapped_column(ForeignKey("campuses.id"), index=True)
    name: Mapped[str]
    address: Mapped[str]
    opening_hours: Mapped[str]
    latitude: Mapped[Decimal | None] = mapped_column(Numeric(9, 6))
    longitude: Mapped[Decimal | None] = mapped_column(Numeric(9, 6))
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    updated_at: Mapped[datetime | None]
