"""Image upload over HTTP: permissions, limits, refused content, and images of products."""

import io
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.test import encode_multipart

from blueprints.areas import AREAS
from marketplace.media.models import Image
from marketplace.providers.storage import IMMUTABLE_CACHE_CONTROL
from marketplace.services import Services
from tests.support.checked_client import checked_app
from tests.support.market import Bearer, Market, Store
from tests.support.object_storage import InMemoryStorage
from tests.support.probes import assert_problem, changed, faults
from tests.support.sample_images import decode_image, encode_image, gradient, photo

PATH = "/api/products/images"
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def storage() -> InMemoryStorage:
    return InMemoryStorage()


@pytest.fixture(scope="module")
def app_with_storage(services: Services, storage: InMemoryStorage) -> Flask:
    return checked_app(changed(services, storage=storage), AREAS)


@pytest.fixture
def client(app_with_storage: Flask, storage: InMemoryStorage) -> Iterator[FlaskClient]:
    storage.fails = False
    yield app_with_storage.test_client()
    storage.fails = False


class EndlessBody(io.RawIOBase):
    """A request body that starts with ``head`` and never ends; counts the bytes read."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content, self._head = self._head or bytes(len(buffer)), b""
        buffer[: len(content)] = content
        self.bytes_read += len(content)
        return len(content)


class Uploader:
    """Uploads images with the credentials of a single user."""

    def __init__(self, client: FlaskClient, headers: dict[str, str]) -> None:
        self.client = client
        self.headers = headers

    def send(self, content: bytes, name: str = "picture.jpg", content_type: str = "image/jpeg") -> Any:
        head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        return self.raw(f"{head}Content-Type: {content_type}\r\n\r\n".encode() + content + b"\r\n--b--\r\n")

    def post(self, data: dict[str, str | bytes | list[bytes]]) -> Any:
        """Send strings as form fields and bytes as files."""
        parts = MultiDict(
            (name, FileStorage(io.BytesIO(value), f"{name}.jpg") if isinstance(value, bytes) else value)
            for name, values in data.items()
            for value in (values if isinstance(values, list) else [values])
        )
        # Werkzeug's generated boundary can exceed the 70 characters that RFC 2046 allows.
        boundary, body = encode_multipart(parts, boundary="b")
        return self.raw(body, f"multipart/form-data; boundary={boundary}")

    def raw(self, body: bytes, content_type: str = "multipart/form-data; boundary=b", **more: Any) -> Any:
        given = {"input_stream": io.BytesIO(body)} | more
        return self.client.post(PATH, headers=self.headers, content_type=content_type, **given)

    def stored(self, content: bytes) -> dict[str, Any]:
        response = self.send(content)
        assert response.status_code == 201, response.text
        data: dict[str, Any] = response.json["data"]
        return data


@pytest.fixture
def vendor(client: FlaskClient, store: Store, bearer: Bearer) -> Uploader:
    return Uploader(client, bearer(store.user_id))


def key_of(url: str) -> str:
    return url.removeprefix("http://127.0.0.1:8000/media/")


class TestAcceptedUploads:
    def test_photo_is_stored_in_three_webp_sizes_and_the_original_format(
        self, vendor: Uploader, storage: InMemoryStorage, market: Market
    ) -> None:
        data = vendor.stored(photo(2000, 1000))

        assert [(one["width"], one["height"], one["contentType"]) for one in data["sizes"]] == [
            (320, 160, "image/webp"),
            (800, 400, "image/webp"),
            (1600, 800, "image/webp"),
            (1600, 800, "image/jpeg"),
        ]
        assert (data["url"], data["width"], data["height"]) == (data["sizes"][1]["url"], 800, 400)
        for one in data["sizes"]:
            stored = storage.objects[key_of(one["url"])]
            assert (stored.content_type, stored.cache_control) == (
                one["contentType"],
                IMMUTABLE_CACHE_CONTROL,
            )
            assert decode_image(stored.content).size == (one["width"], one["height"])
        row = market.row(Image, UUID(data["id"]))
        assert (row.status, row.width, row.height, row.content_type) == ("ready", 2000, 1000, "image/jpeg")
        assert row.key == key_of(data["sizes"][0]["url"])
        assert row.key == f"products/{row.content_hash}-320.webp"

    @pytest.mark.parametrize("kind", ["PNG", "WEBP", "GIF"])
    def test_format_is_detected_from_content(self, vendor: Uploader, kind: str) -> None:
        """The client's file name and content type are ignored."""
        response = vendor.send(encode_image(gradient(30, 20), kind), "invoice.pdf", "application/pdf")

        data = response.json["data"]
        formats = {"image/webp", f"image/{kind.lower()}"}
        assert {one["contentType"] for one in data["sizes"]} == formats
        assert {(one["width"], one["height"]) for one in data["sizes"]} == {(30, 20)}

    def test_repeated_upload_by_same_owner_returns_the_same_image(
        self, vendor: Uploader, storage: InMemoryStorage, client: FlaskClient, market: Market, bearer: Bearer
    ) -> None:
        content = photo(410, 300)
        first = vendor.stored(content)
        puts = storage.puts

        assert vendor.stored(content) == first
        assert storage.puts == puts
        other = Uploader(client, bearer(market.staff("moderator"))).stored(content)
        assert other["id"] != first["id"]
        assert other["sizes"] == first["sizes"]

    def test_file_of_five_megabytes_is_accepted(self, vendor: Uploader) -> None:
        content = photo(40, 30)

        assert vendor.send(content + bytes(5 * MEGABYTE - len(content))).status_code == 201

    def test_chunked_body_without_length_is_accepted(self, vendor: Uploader) -> None:
        body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
        body += photo(50, 30) + b"\r\n--b--\r\n"
        response = vendor.raw(
            b"",
            input_stream=io.BytesIO(body),
            environ_overrides={"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"},
        )

        assert response.status_code == 201


class TestProductImages:
    def test_product_shows_uploaded_images(self, vendor: Uploader, market: Market) -> None:
        pictures = [vendor.stored(photo(1000 + n, 700)) for n in range(2)]
        body = {
            "title": "Desk lamp",
            "priceMinor": 10_000,
            "condition": "good",
            "categoryId": str(market.category_id),
            "imageIds": [one["id"] for one in pictures],
        }

        created = vendor.client.post("/api/products", json=body, headers=vendor.headers)

        assert created.status_code == 201
        product = created.json["data"]
        assert product["images"] == pictures
        # Cards show the smallest size.
        assert product["imageUrl"] == pictures[0]["sizes"][0]["url"]
        assert market.row(Image, UUID(pictures[0]["id"])).unused_since is None
        kept = vendor.client.put(
            f"/api/products/{product['id']}", json={"imageIds": [pictures[1]["id"]]}, headers=vendor.headers
        )
        assert kept.json["data"]["images"] == [pictures[1]]
        assert market.row(Image, UUID(pictures[0]["id"])).unused_since is not None
        assert market.row(Image, UUID(pictures[1]["id"])).unused_since is None

    def test_seeded_image_is_shown_without_sizes(self, client: FlaskClient, market: Market) -> None:
        store = market.store()
        image_id = market.image(store.user_id)
        product_id = market.product(store, images=(image_id,))

        shown = client.get(f"/api/products/{product_id}").json["data"]["images"]

        url = f"http://127.0.0.1:8000/media/{market.row(Image, image_id).key}"
        assert shown == [{"id": str(image_id), "url": url, "width": None, "height": None, "sizes": []}]

    @pytest.mark.parametrize("status", ["pending", "deleting", "deleted"])
    def test_image_that_is_not_ready_is_refused(
        self, vendor: Uploader, market: Market, store: Store, status: str
    ) -> None:
        image_id = market.image(store.user_id)
        market.change(Image, image_id, status=status)
        product_id = market.product(store)

        response = vendor.client.put(
            f"/api/products/{product_id}", json={"imageIds": [str(image_id)]}, headers=vendor.headers
        )

        # Keep the image out of cleanup runs of other tests.
        market.change(Image, image_id, status="deleted")
        assert faults(response) == ["imageIds[0]"]

    def test_image_of_another_user_is_refused(
        self, vendor: Uploader, client: FlaskClient, market: Market, store: Store, bearer: Bearer
    ) -> None:
        other = Uploader(client, bearer(market.store().user_id)).stored(photo(60, 50))
        product_id = market.product(store)

        response = client.put(
            f"/api/products/{product_id}", json={"imageIds": [other["id"]]}, headers=vendor.headers
        )

        assert faults(response) == ["imageIds[0]"]


class TestRefusedUploads:
    def test_anonymous_callers_and_buyers_are_refused(
        self, client: FlaskClient, market: Market, bearer: Bearer
    ) -> None:
        assert_problem(Uploader(client, {}).send(photo(40, 30)), 401, "AUTH_UNAUTHORIZED")
        buyer = Uploader(client, bearer(market.person()))
        assert_problem(buyer.send(photo(40, 30)), 403, "AUTH_FORBIDDEN")

    def test_file_larger_than_five_megabytes_is_refused(self, vendor: Uploader) -> None:
        content = photo(40, 30)
        refused = vendor.send(content + bytes(5 * MEGABYTE + 1 - len(content)))

        assert "5 MB" in assert_problem(refused, 413, "PAYLOAD_TOO_LARGE")["detail"]

    def test_declared_length_over_the_limit_is_refused_without_reading(self, vendor: Uploader) -> None:
        stream = EndlessBody(b"")

        response = vendor.raw(
            b"", environ_overrides={"wsgi.input": stream, "CONTENT_LENGTH": str(6 * MEGABYTE)}
        )

        assert_problem(response, 413, "PAYLOAD_TOO_LARGE")
        assert stream.bytes_read == 0

    def test_endless_body_is_cut_off_near_the_limit(self, vendor: Uploader) -> None:
        stream = EndlessBody(b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n')

        response = vendor.raw(
            b"",
            environ_overrides={
                "wsgi.input": stream,
                "wsgi.input_terminated": True,
                "CONTENT_LENGTH": "",
                "HTTP_TRANSFER_ENCODING": "chunked",
            },
        )

        assert_problem(response, 413, "PAYLOAD_TOO_LARGE")
        assert 5 * MEGABYTE < stream.bytes_read < 5.2 * MEGABYTE

    @pytest.mark.parametrize(
        "content",
        [
            b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
            b"<!doctype html><script>alert(1)</script>",
            b"%PDF-1.7 ...",
            b"PK\x03\x04....",
            b"BM......",
            b"II*\x00....",
            b"\x00\x00\x00\x1cftypavif",
            b"\xff\xd8",
            b"x",
        ],
    )
    def test_other_content_named_as_image_is_refused(self, vendor: Uploader, content: bytes) -> None:
        problem = assert_problem(vendor.send(content), 415, "UNSUPPORTED_MEDIA_TYPE")

        assert "JPEG, PNG, WebP or GIF" in problem["detail"]

    def test_empty_or_truncated_image_is_refused(self, vendor: Uploader) -> None:
        assert faults(vendor.send(b"")) == ["file"]
        assert faults(vendor.send(photo(400, 300)[:5000])) == ["file"]

    def test_other_content_types_and_encodings_are_refused(self, vendor: Uploader) -> None:
        for content_type in ("application/json", "image/jpeg", "application/x-www-form-urlencoded", ""):
            assert_problem(vendor.raw(b"{}", content_type), 415, "UNSUPPORTED_MEDIA_TYPE")
        compressed = vendor.client.post(
            PATH,
            data=b"x",
            headers=vendor.headers | {"Content-Encoding": "gzip"},
            content_type="multipart/form-data; boundary=b",
        )
        assert_problem(compressed, 415, "UNSUPPORTED_MEDIA_TYPE")

    @pytest.mark.parametrize(
        ("body", "content_type"),
        [
            (b"", "multipart/form-data"),
            (b"", "multipart/form-data; boundary="),
            (b"", f"multipart/form-data; boundary={'b' * 71}"),
            (b"", "multipart/form-data; boundary=b"),
            (b"nothing of it", "multipart/form-data; boundary=b"),
            (b"--b\r\nContent-Type: image/png\r\n\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b"),
            (
                b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\ncut off',
                "multipart/form-data; boundary=b",
            ),
            (
                b'--b\r\nContent-Disposition: form-data; name="\xff"; filename="x"\r\n\r\nx\r\n--b--\r\n',
                "multipart/form-data; boundary=b",
            ),
        ],
    )
    def test_malformed_multipart_body_is_refused(
        self, vendor: Uploader, body: bytes, content_type: str
    ) -> None:
        assert_problem(vendor.raw(body, content_type), 400, "VALIDATION_FAILED")

    def test_missing_and_unexpected_parts_are_named(self, vendor: Uploader) -> None:
        picture = photo(40, 30)

        assert faults(vendor.raw(b"--b--\r\n")) == ["file"]
        assert faults(vendor.post({"file": "text"})) == ["file"]
        assert faults(vendor.post({"file": [picture, picture]})) == ["file"]
        assert sorted(faults(vendor.post({"file": picture, "title": "x", "image": b"x"}))) == [
            "image",
            "title",
        ]
        assert faults(vendor.post({"picture": picture})) == ["file", "picture"]

    def test_body_with_too_many_parts_is_refused(self, vendor: Uploader) -> None:
        assert_problem(vendor.post({f"field{number}": "x" for number in range(20)}), 413, "PAYLOAD_TOO_LARGE")

    def test_sixty_first_upload_in_fifteen_minutes_is_rate_limited(
        self, services: Services, storage: InMemoryStorage, market: Market, bearer: Bearer
    ) -> None:
        app = checked_app(changed(services, storage=storage, rate_limit_scale=1), AREAS)
        uploader = Uploader(app.test_client(), bearer(market.store().user_id))

        for _ in range(60):
            assert uploader.send(b"x").headers["RateLimit-Limit"] == "60"
        assert_problem(uploader.send(b"x"), 429, "RATE_LIMIT_EXCEEDED")


class TestStorageOutage:
    def test_retry_after_storage_outage_completes_the_same_image(
        self, vendor: Uploader, storage: InMemoryStorage, market: Market, store: Store
    ) -> None:
        content = photo(500, 400, comment=uuid4().hex)
        storage.fails = True

        assert_problem(vendor.send(content), 502, "PROVIDER_UNAVAILABLE")

        with market.database.reading() as session:
            [row] = session.query(Image).filter_by(owner_id=store.user_id).all()
        assert row.status == "pending"
        storage.fails = False
        assert vendor.stored(content)["id"] == str(row.id)
        assert market.row(Image, row.id).status == "ready"
