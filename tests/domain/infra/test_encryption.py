"""Encrypted columns: values survive, keys rotate, and changed or moved values are refused."""

import base64
from collections.abc import Iterator

import pytest
from sqlalchemy import String, insert, select, text, type_coerce
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from marketplace.infra.encryption import (
    BlindIndex,
    EncryptedText,
    EncryptionError,
    Keyring,
    make_keyring,
    use_keyring,
)
from marketplace.infra.encryption_keys import parse_data_keys, parse_key
from marketplace.infra.sql.statements import Statement
from tests.support.encryption_keys import BLIND_INDEX_KEY, DATA_ENCRYPTION_KEYS

OLD, NEW, INDEX = b"o" * 32, b"n" * 32, b"i" * 32
PLACE = "people.phone"
NUMBER = "+2348031234567"
OLD_KEYRING = Keyring({"k1": OLD}, INDEX)
ROTATED = Keyring({"k2": NEW, "k1": OLD}, INDEX)


def encoded(key: bytes) -> str:
    return base64.b64encode(key).decode()


class TestKeyring:
    def test_value_survives_a_round_trip(self) -> None:
        for plain in ("", "0123456789", NUMBER, "Ọláńrewájú 🎓", "x" * 10_000):
            stored = OLD_KEYRING.encrypt(plain, PLACE)
            assert OLD_KEYRING.decrypt(stored, PLACE) == plain
            assert not plain or plain not in stored

    def test_equal_texts_are_stored_differently(self) -> None:
        assert len({OLD_KEYRING.encrypt(NUMBER, PLACE) for _ in range(100)}) == 100

    def test_rotation_reads_old_values_and_writes_with_the_first_key(self) -> None:
        old = OLD_KEYRING.encrypt(NUMBER, PLACE)
        new = ROTATED.encrypt(NUMBER, PLACE)
        assert [old.split(":")[:2], new.split(":")[:2]] == [["v1", "k1"], ["v1", "k2"]]
        assert [ROTATED.decrypt(value, PLACE) for value in (old, new)] == [NUMBER] * 2
        assert Keyring({"k2": NEW}, INDEX).decrypt(new, PLACE) == NUMBER

    def test_missing_key_is_named(self) -> None:
        with pytest.raises(
            EncryptionError, match="the key k2, which is missing in DATA_ENCRYPTION_KEYS"
        ) as raised:
            OLD_KEYRING.decrypt(ROTATED.encrypt(NUMBER, PLACE), PLACE)
        assert NUMBER not in str(raised.value)

    def test_other_key_of_the_same_id_is_refused(self) -> None:
        with pytest.raises(EncryptionError, match="can't be decrypted"):
            Keyring({"k1": NEW}, INDEX).decrypt(OLD_KEYRING.encrypt(NUMBER, PLACE), PLACE)

    def test_value_moved_to_another_column_is_refused(self) -> None:
        stored = OLD_KEYRING.encrypt(NUMBER, PLACE)
        for other in ("people.email", "addresses.phone", ""):
            with pytest.raises(EncryptionError, match="belongs to another column"):
                OLD_KEYRING.decrypt(stored, other)

    def test_each_changed_character_is_noticed(self) -> None:
        stored = OLD_KEYRING.encrypt(NUMBER, PLACE)
        for position, character in enumerate(stored):
            changed = f"{stored[:position]}{'A' if character != 'A' else 'B'}{stored[position + 1 :]}"
            with pytest.raises(EncryptionError):
                OLD_KEYRING.decrypt(changed, PLACE)

    @pytest.mark.parametrize("cut", [1, 2, 16, 30])
    def test_shortened_value_is_refused(self, cut: int) -> None:
        with pytest.raises(EncryptionError):
            OLD_KEYRING.decrypt(OLD_KEYRING.encrypt(NUMBER, PLACE)[:-cut], PLACE)

    @pytest.mark.parametrize("stored", [NUMBER, "", "v1:k1:", "v2:k1:" + "A" * 60, f"v1:k1:{'A' * 60}\n"])
    def test_plain_or_unknown_value_is_refused(self, stored: str) -> None:
        with pytest.raises(EncryptionError, match="is not encrypted"):
            OLD_KEYRING.decrypt(stored, PLACE)

    def test_key_id_is_bound_to_the_value(self) -> None:
        stored = OLD_KEYRING.encrypt(NUMBER, PLACE).replace("v1:k1:", "v1:k2:")
        with pytest.raises(EncryptionError, match="can't be decrypted"):
            Keyring({"k2": OLD}, INDEX).decrypt(stored, PLACE)

    def test_blind_index_depends_on_text_column_and_key_alone(self) -> None:
        index = OLD_KEYRING.blind_index(NUMBER, PLACE)
        assert ROTATED.blind_index(NUMBER, PLACE) == index
        assert len(index) == 32
        assert index not in {
            OLD_KEYRING.blind_index(NUMBER, "addresses.phone"),
            OLD_KEYRING.blind_index(f"{NUMBER} ", PLACE),
            Keyring({"k1": OLD}, NEW).blind_index(NUMBER, PLACE),
        }

    def test_keys_show_in_no_representation(self) -> None:
        assert "oooo" not in f"{OLD_KEYRING!r} {OLD_KEYRING}"


class TestKeys:
    def test_keys_keep_the_order_of_the_setting(self) -> None:
        assert list(parse_data_keys(f"k2:{encoded(NEW)}, k1:{encoded(OLD)}")) == ["k2", "k1"]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (encoded(OLD), "pair 1 has no id"),
            (f"k1:{encoded(OLD)},", "pair 2 has no id"),
            (f"K1:{encoded(OLD)}", "pair 1 has no id"),
            (f"k1:{encoded(OLD)},k1:{encoded(NEW)}", "must not contain the id k1 twice"),
            (f"k1:{encoded(OLD)},k2:{encoded(OLD)}", "the same key under two ids"),
            (f"k1:{encoded(b'o' * 31)}", "has an invalid key k1, which must be 32 bytes in base64"),
            ("k1:not base64", "has an invalid key k1, which must be 32 bytes in base64"),
            ("k1:", "has an invalid key k1, which must be 32 bytes in base64"),
        ],
    )
    def test_error_about_invalid_keys_does_not_reveal_a_key(self, value: str, message: str) -> None:
        with pytest.raises(ValueError, match=message) as raised:
            parse_data_keys(value)
        assert encoded(OLD)[:12] not in str(raised.value)

    def test_key_of_another_length_is_refused(self) -> None:
        with pytest.raises(ValueError, match="must be 32 bytes"):
            parse_key(encoded(b"x" * 16))

    def test_no_keys_give_no_keyring(self) -> None:
        assert make_keyring("", "") is None


class Base(DeclarativeBase):
    """The base of the tables of these tests."""


class Person(Base):
    """A person with an encrypted phone number."""

    __tablename__ = "encrypted_people"

    id: Mapped[int] = mapped_column(primary_key=True)
    phone: Mapped[str | None] = mapped_column(EncryptedText("encrypted_people.phone"))
    phone_index: Mapped[bytes | None] = mapped_column(
        BlindIndex("encrypted_people.phone"),
        default=lambda context: context.get_current_parameters()["phone"],
        unique=True,
    )
    nickname: Mapped[str | None] = mapped_column(EncryptedText("encrypted_people.nickname"))


@pytest.fixture
def people(session: Session) -> Session:
    Base.metadata.create_all(session.connection())
    session.add_all(Person(id=number, phone=f"+23480312345{number:02}") for number in range(5))
    session.flush()
    session.expire_all()
    return session


@pytest.fixture
def other_keys() -> Iterator[None]:
    yield
    use_keyring(make_keyring(DATA_ENCRYPTION_KEYS, BLIND_INDEX_KEY))


class TestColumns:
    def test_orm_value_survives_and_table_contains_no_plain_text(self, people: Session) -> None:
        found = people.scalars(select(Person).order_by(Person.id)).all()
        assert [person.phone for person in found] == [f"+23480312345{number:02}" for number in range(5)]
        stored = str(people.execute(text("SELECT t::text FROM encrypted_people t")).all())
        assert "2348031" not in stored
        assert "v1:tests:" in stored

    def test_row_is_found_by_blind_index(self, people: Session) -> None:
        found = people.scalars(select(Person).where(Person.phone_index == "+2348031234503")).one()
        assert (found.id, found.phone) == (3, "+2348031234503")
        assert people.scalar(select(Person).where(Person.phone_index == "+2348031234599")) is None

    def test_equal_values_are_refused_by_the_unique_blind_index(self, people: Session) -> None:
        again = insert(Person).values(id=9, phone="+2348031234503")
        with pytest.raises(IntegrityError, match="phone_index"), people.begin_nested():
            people.execute(again)

    def test_null_is_stored_as_null(self, people: Session) -> None:
        people.add_all([Person(id=20), Person(id=21)])
        people.flush()
        people.expire_all()
        found = people.scalars(select(Person).where(Person.phone.is_(None)).order_by(Person.id)).all()
        assert [person.id for person in found] == [20, 21]
        assert {(person.phone, person.phone_index) for person in found} == {(None, None)}

    def test_comparison_of_the_encrypted_column_is_refused(self, people: Session) -> None:
        for comparison in (
            lambda: Person.phone == NUMBER,
            lambda: Person.phone.in_([NUMBER]),
            lambda: Person.phone.startswith("+234"),
            Person.phone.desc,
        ):
            with pytest.raises(TypeError, match="compare its blind index"):
                comparison()

    def test_statements_encrypt_and_decrypt_like_the_orm(self, people: Session) -> None:
        phone = EncryptedText("encrypted_people.phone")
        write = Statement(
            text("INSERT INTO encrypted_people (id, phone) VALUES (:id, :phone)"), encrypted={"phone": phone}
        )
        read = Statement(
            text("SELECT id, phone FROM encrypted_people WHERE id = :id"), encrypted={"phone": phone}
        )
        write.run(people, id=7, phone=NUMBER)
        assert read.one(people, id=7) == {"id": 7, "phone": NUMBER}
        assert read.tuples(people, id=7) == [(7, NUMBER)]
        phones = Statement(
            text("SELECT phone FROM encrypted_people WHERE id = :id"), encrypted={"phone": phone}
        )
        assert (phones.scalar(people, id=7), phones.scalars(people, id=7)) == (NUMBER, [NUMBER])
        assert phones.scalar(people, id=-1) is None
        assert people.get_one(Person, 7).phone == NUMBER

    def test_value_copied_to_another_column_is_refused(self, people: Session) -> None:
        people.execute(text("UPDATE encrypted_people SET nickname = phone WHERE id = 1"))
        with pytest.raises(EncryptionError, match=r"encrypted_people\.nickname can't be decrypted"):
            people.scalar(select(Person.nickname).where(Person.id == 1))

    def test_rotated_keys_read_the_table(self, people: Session, other_keys: None) -> None:
        old = parse_data_keys(DATA_ENCRYPTION_KEYS)
        use_keyring(Keyring({"next": NEW} | old, parse_key(BLIND_INDEX_KEY)))
        people.add(Person(id=8, phone=NUMBER))
        people.flush()
        people.expire_all()
        assert {person.phone for person in people.scalars(select(Person))} >= {NUMBER, "+2348031234500"}
        stored = type_coerce(Person.phone, String)
        assert str(people.scalar(select(stored).where(Person.id == 8))).startswith("v1:next:")

    def test_missing_keys_are_named(self, people: Session, other_keys: None) -> None:
        use_keyring(None)
        with pytest.raises(EncryptionError, match="DATA_ENCRYPTION_KEYS and BLIND_INDEX_KEY are missing"):
            people.scalars(select(Person)).all()
