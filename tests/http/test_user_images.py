"""Images of users over HTTP: upload by purpose, avatars, and images that cannot be used for another purpose."""

import io
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.test import encode_multipart

from blueprints.areas import AREAS
from blueprints.users.schemas import UserImage
from marketplace.kernel.errors import ValidationError
from marketplace.media.images import AVATAR, REVIEW, claim_images
from marketplace.media.models import Image
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.market import Bearer, Market, Store
from tests.support.object_storage import InMemoryStorage
from tests.support.probes import assert_problem, changed, faults
from tests.support.sample_images import photo

ME = "/api/users/me"
PATH = "/api/users/me/images"


@pytest.fixture(scope="module")
def storage() -> InMemoryStorage:
    return InMemoryStorage()


@pytest.fixture(scope="module")
def app_with_storage(services: Services, storage: InMemoryStorage) -> Flask:
    return checked_app(changed(services, storage=storage), AREAS)


@pytest.fixture
def client(app_with_storage: Flask) -> FlaskClient:
    return app_with_storage.test_client()


@pytest.fixture
def user(market: Market) -> UUID:
    return market.person(name="Amara")


@pytest.fixture
def headers(user: UUID, bearer: Bearer) -> dict[str, str]:
    return bearer(user)


@pytest.fixture(scope="module")
def picture() -> bytes:
    return photo(900, 600)


def send(client: FlaskClient, headers: dict[str, str], *parts: tuple[str, str | bytes]) -> Any:
    """Send strings as form fields and bytes as files."""
    data = MultiDict(
        (name, FileStorage(io.BytesIO(value), f"{name}.jpg") if isinstance(value, bytes) else value)
        for name, value in parts
    )
    boundary, body = encode_multipart(data, boundary="user-images")
    return client.post(
        PATH, data=body, headers=headers, content_type=f"multipart/form-data; boundary={boundary}"
    )


def upload(client: FlaskClient, headers: dict[str, str], picture: bytes, purpose: str = "avatar") -> Any:
    """Upload an image and return the reply's data."""
    answer = send(client, headers, ("purpose", purpose), ("file", picture))
    assert answer.status_code == 201, answer.json
    assert not UserImage().validate(answer.json["data"])
    return answer.json["data"]


class TestUpload:
    @pytest.mark.parametrize(
        ("purpose", "folder"), [("avatar", "avatars"), ("review", "reviews"), ("chat", "chat")]
    )
    def test_image_is_stored_in_the_folder_of_its_purpose(
        self, client: FlaskClient, headers: dict[str, str], storage: InMemoryStorage, picture: bytes,
        market: Market, purpose: str, folder: str,
    ) -> None:  # fmt: skip
        uploaded = upload(client, headers, picture, purpose)

        with market.database.reading() as session:
            image = session.get_one(Image, UUID(uploaded["id"]))
        assert image.purpose == purpose
        assert image.key.startswith(f"{folder}/")
        assert uploaded["url"].partition(f"/{folder}/")[1]
        assert image.key in storage.objects

    def test_same_file_is_stored_once_for_each_purpose(
        self, client: FlaskClient, headers: dict[str, str], picture: bytes
    ) -> None:
        first, again = (upload(client, headers, picture)["id"] for _ in range(2))
        other = upload(client, headers, picture, "review")["id"]
        assert first == again != other

    @pytest.mark.parametrize(
        ("parts", "names"),
        [
            ([("file", b"x")], ["purpose"]),
            ([("purpose", "product"), ("file", b"x")], ["purpose"]),
            ([("purpose", "avatar")], ["file"]),
            ([("purpose", "avatar"), ("purpose", "chat"), ("file", b"x")], ["purpose"]),
            ([("purpose", b"avatar"), ("file", b"x")], ["purpose"]),
            ([("purpose", "avatar"), ("file", b"x"), ("colour", "red")], ["colour"]),
            ([("purpose", "avatar"), ("file", "text")], ["file"]),
        ],
    )
    def test_invalid_form_is_refused_by_name(
        self,
        client: FlaskClient,
        headers: dict[str, str],
        parts: list[tuple[str, str | bytes]],
        names: list[str],
    ) -> None:
        assert sorted(faults(send(client, headers, *parts))) == names

    @pytest.mark.parametrize(
        ("content", "status"),
        [
            (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", 415),
            (b"%PDF-1.7\n1 0 obj", 415),
            (b"GIF89a" + b"<script>alert(1)</script>", 422),
            (b"\xff\xd8\xff\xe0" + bytes(6 * 1024 * 1024), 413),
        ],
        ids=["svg", "pdf", "polyglot", "too large"],
    )
    def test_content_that_is_no_image_is_refused(
        self, client: FlaskClient, headers: dict[str, str], content: bytes, status: int
    ) -> None:
        assert send(client, headers, ("purpose", "avatar"), ("file", content)).status_code == status

    def test_upload_requires_an_active_account(
        self, client: FlaskClient, market: Market, bearer: Bearer, picture: bytes
    ) -> None:
        restricted = bearer(market.person(account_status="restricted"))
        parts = (("purpose", "avatar"), ("file", picture))
        assert_problem(send(client, {}, *parts), 401, "AUTH_UNAUTHORIZED")
        assert_problem(send(client, restricted, *parts), 403, "AUTH_FORBIDDEN")


class TestAvatar:
    def test_uploaded_avatar_replaces_external_avatar_and_the_reverse(
        self, client: FlaskClient, headers: dict[str, str], picture: bytes, market: Market
    ) -> None:
        external = "https://pictures.example/a.png"
        client.put(ME, json={"avatarUrl": external}, headers=headers)
        image_id = upload(client, headers, picture)["id"]

        shown = client.put(ME, json={"avatarImageId": image_id}, headers=headers).json["data"]["avatarUrl"]
        assert "/avatars/" in shown
        assert client.get(ME, headers=headers).json["data"]["avatarUrl"] == shown
        assert self.unused_since(market, image_id) is None

        client.put(ME, json={"avatarUrl": external}, headers=headers)
        assert client.get(ME, headers=headers).json["data"]["avatarUrl"] == external
        assert self.unused_since(market, image_id) is not None

    def test_cleared_avatar_is_released(
        self, client: FlaskClient, headers: dict[str, str], picture: bytes, market: Market
    ) -> None:
        image_id = upload(client, headers, picture)["id"]
        client.put(ME, json={"avatarImageId": image_id}, headers=headers)

        cleared = client.put(ME, json={"clear": ["avatarUrl"]}, headers=headers)

        assert cleared.json["data"]["avatarUrl"] is None
        assert self.unused_since(market, image_id) is not None

    def test_only_own_image_with_purpose_avatar_is_accepted(
        self, client: FlaskClient, headers: dict[str, str], picture: bytes, market: Market, bearer: Bearer
    ) -> None:
        foreign = upload(client, bearer(market.person()), picture)["id"]
        review = upload(client, headers, picture, "review")["id"]
        for image_id in (foreign, review, str(uuid4()), str(market.image(None))):
            answer = client.put(ME, json={"avatarImageId": image_id}, headers=headers)
            assert list(faults(answer)) == ["avatarImageId"]

    def test_avatar_has_a_single_source(self, client: FlaskClient, headers: dict[str, str]) -> None:
        body = {"avatarImageId": str(uuid4()), "avatarUrl": "https://pictures.example/a.png"}
        assert list(faults(client.put(ME, json=body, headers=headers))) == ["avatarImageId"]

    def unused_since(self, market: Market, image_id: str) -> Any:
        with market.database.reading() as session:
            return session.get_one(Image, UUID(image_id)).unused_since


class TestOtherPurposes:
    def test_listing_and_banner_refuse_images_of_other_purposes(
        self, client: FlaskClient, store: Store, market: Market, bearer: Bearer, picture: bytes
    ) -> None:
        vendor = bearer(store.user_id)
        image_id = upload(client, vendor, picture)["id"]
        listing = {
            "title": "Desk lamp", "priceMinor": 500_000, "categoryId": str(market.category()),
            "condition": "new", "quantity": 1, "imageIds": [image_id],
        }  # fmt: skip
        assert list(faults(client.post("/api/products", json=listing, headers=vendor))) == ["imageIds[0]"]
        banner = {"title": "Freshers", "placement": "hero", "imageId": image_id}
        moderator = bearer(market.staff("moderator"))
        assert list(faults(client.post("/api/banners", json=banner, headers=moderator))) == ["imageId"]

    def test_claimed_images_keep_the_given_order(
        self, client: FlaskClient, user: UUID, headers: dict[str, str], market: Market
    ) -> None:
        ids = [UUID(upload(client, headers, photo(60, 40 + n), "review")["id"]) for n in range(3)]
        wanted = [ids[2], ids[0], ids[1]]
        with market.database.transaction() as session:
            claimed = claim_images(
                session, image_ids=wanted, owner_id=user, purpose=REVIEW, parameter="imageIds"
            )
            assert [image.id for image in claimed] == wanted
            with pytest.raises(ValidationError) as refused:
                claim_images(
                    session, image_ids=[ids[0], uuid4()], owner_id=user, purpose=AVATAR, parameter="imageIds"
                )
        assert [fault.name for fault in refused.value.invalid_params] == ["imageIds[0]", "imageIds[1]"]
