"""Structured opening hours of hubs, public holidays, shifts of representatives, and active campuses."""

from alembic import op

revision = "1029"
down_revision = "1028"
branch_labels = None
depends_on = None

_DAYS = "'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday', 'sunday'"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"


def upgrade() -> None:
    """Add the columns, tables and the function. A later migration validates the constraints."""
    op.execute("""
    ALTER TABLE campuses ADD COLUMN active boolean NOT NULL DEFAULT true;
    ALTER TABLE campuses ADD COLUMN revision bigint NOT NULL DEFAULT 1;
    ALTER TABLE campuses ADD COLUMN updated_at timestamptz;
    ALTER TABLE campus_email_domains ADD CONSTRAINT ck_campus_email_domains_domain CHECK (
        domain ~ '^[a-z0-9-]{1,63}([.][a-z0-9-]{1,63})+$' AND length(domain) <= 253) NOT VALID;
    """)
    op.execute(f"""
    CREATE FUNCTION is_weekly_hours(hours jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE
            WHEN hours IS NULL THEN true
            WHEN jsonb_typeof(hours) <> 'array' THEN false
            ELSE jsonb_array_length(hours) <= 28
                AND NOT EXISTS (
                    SELECT FROM jsonb_array_elements(hours) each
                    WHERE NOT coalesce(each ->> 'day' IN ({_DAYS}) AND each ->> 'opens' ~ '^{_TIME}$'
                        AND each ->> 'closes' ~ '^({_TIME}|24:00)$'
                        AND each ->> 'opens' < (each ->> 'closes') COLLATE "C", false))
                AND NOT EXISTS (
                    SELECT FROM jsonb_array_elements(hours) WITH ORDINALITY a (hour, number)
                        JOIN jsonb_array_elements(hours) WITH ORDINALITY b (hour, number)
                            ON a.number < b.number AND a.hour ->> 'day' = b.hour ->> 'day'
                    WHERE a.hour ->> 'opens' < (b.hour ->> 'closes') COLLATE "C"
                        AND b.hour ->> 'opens' < (a.hour ->> 'closes') COLLATE "C")
        END
    $$;
    COMMENT ON FUNCTION is_weekly_hours IS 'Whether opening hours are well-formed intervals without overlaps, or null';
    """)
    op.execute("""
    ALTER TABLE hubs ADD COLUMN weekly_hours jsonb;
    ALTER TABLE hubs ADD COLUMN revision bigint NOT NULL DEFAULT 1;
    ALTER TABLE hubs ADD CONSTRAINT ck_hubs_weekly_hours CHECK (is_weekly_hours(weekly_hours)) NOT VALID;
    ALTER TABLE hubs ADD CONSTRAINT ck_hubs_coordinates CHECK ((latitude IS NULL) = (longitude IS NULL)) NOT VALID;
    COMMENT ON COLUMN hubs.weekly_hours IS 'Intervals of WeeklyHours; null while the hours are unknown';
    """)
    op.execute("""
    CREATE TABLE public_holidays (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_public_holidays PRIMARY KEY,
        date date NOT NULL,
        name text NOT NULL,
        campus_id uuid CONSTRAINT fk_public_holidays_campus_id REFERENCES campuses,
        active boolean NOT NULL DEFAULT true,
        revision bigint NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now()
    );
    CREATE INDEX ix_public_holidays_date ON public_holidays (date, id);
    CREATE INDEX ix_public_holidays_campus_id ON public_holidays (campus_id);
    CREATE UNIQUE INDEX uq_public_holidays_entry ON public_holidays (date, campus_id, lower(name))
        NULLS NOT DISTINCT WHERE active;
    """)
    op.execute("""
    CREATE TABLE rep_shifts (
        id uuid DEFAULT uuidv7() CONSTRAINT pk_rep_shifts PRIMARY KEY,
        user_id uuid NOT NULL CONSTRAINT fk_rep_shifts_user_id REFERENCES profiles,
        hub_id uuid NOT NULL CONSTRAINT fk_rep_shifts_hub_id REFERENCES hubs,
        weekday bigint NOT NULL,
        starts_minute bigint NOT NULL,
        ends_minute bigint NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT ck_rep_shifts_weekday CHECK (weekday BETWEEN 0 AND 6),
        CONSTRAINT ck_rep_shifts_minutes CHECK (
            starts_minute >= 0 AND ends_minute > starts_minute AND ends_minute <= 1440),
        CONSTRAINT ex_rep_shifts_user EXCLUDE USING gist (
            user_id WITH =, weekday WITH =, int8range(starts_minute, ends_minute) WITH &&)
    );
    CREATE INDEX ix_rep_shifts_hub_id ON rep_shifts (hub_id);
    COMMENT ON COLUMN rep_shifts.weekday IS '0 is Monday';
    """)


def downgrade() -> None:
    """Drop the tables, columns and the function."""
    op.execute("DROP TABLE rep_shifts, public_holidays")
    op.execute(
        "ALTER TABLE hubs DROP CONSTRAINT ck_hubs_coordinates, DROP COLUMN weekly_hours, DROP COLUMN revision"
    )
    op.execute("DROP FUNCTION is_weekly_hours")
    op.execute("ALTER TABLE campus_email_domains DROP CONSTRAINT ck_campus_email_domains_domain")
    op.execute("ALTER TABLE campuses DROP COLUMN active, DROP COLUMN revision, DROP COLUMN updated_at")
