"""Page timings that browsers measure."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from marketplace.kernel.signals import BUCKETS_MS, RECORDER, Key


def test_timings_are_counted_by_duration(client: FlaskClient) -> None:
    RECORDER.take()
    body = {"largestContentfulPaintMs": 1_900, "interactionToNextPaintMs": 150}
    answer = client.post("/api/page-timings", json=body)

    assert (answer.status_code, answer.json["data"]) == (200, {"recorded": 2})
    counted = RECORDER.take()
    assert counted[Key("page_paint", "", BUCKETS_MS.index(2_200))] == 1
    assert counted[Key("page_interaction", "", BUCKETS_MS.index(150))] == 1
    assert client.post("/api/page-timings", json={}).json["data"] == {"recorded": 0}


@pytest.mark.parametrize(
    "body",
    [
        {"largestContentfulPaintMs": -1},
        {"largestContentfulPaintMs": 600_001},
        {"interactionToNextPaintMs": 1.5},
        {"url": "https://market.example/users/ada"},
    ],
)
def test_other_values_are_refused(client: FlaskClient, body: dict[str, Any]) -> None:
    assert client.post("/api/page-timings", json=body).status_code == 422
