"""The guard of public texts: contact details and offensive language in any spelling."""

import pytest

from marketplace.identity.public_name import public_name
from marketplace.kernel.errors import ValidationError
from marketplace.reviews.text_guard import ensure_suitable, is_profane


@pytest.mark.parametrize(
    "text",
    [
        "This is shit",
        "SHIT!",
        "sh1t seller",
        "5hit",
        "shiiiiit",
        "\u0455hit in other letters",
        "f u c k this store",
        "f.u.c.k",
        "f**k them",
        "b*tch",
        "what a b!tch",
        "bastards all of them",
        "ass hole",
        "Oloriburuku",
        "olori buruku seller",
        "Thunder fire you",
        "ASHAWO",
        "mumu seller",
        "werey dey disguise",
        "shege dan iska",
    ],
)
def test_offensive_language_is_found(text: str) -> None:
    assert is_profane(text)


@pytest.mark.parametrize(
    "text",
    [
        "Delivered from Scunthorpe to Penistone",
        "The shiitake and the cockerel were fresh",
        "A classic bass, an assessment and a passable grass mat",
        "Dickens' Great Expectations, Moby Dick and an ode by Keats",
        "I saw shege before this seller helped me",
        "A bastard file for my metalwork class",
        "Idiot-proof assembly, even I managed",
        "Abeg, e sweet die! No wahala, the seller try well well",
        "Size S, M, L or XL; 5*5 metres, 4 * 4 drive",
        "Matsushita parts, therapist's couch, cumulative GPA cum laude",
        "Ode delivered it to Ewu Road, Ile-Ife",
        "★★★★★ * * * very good",
    ],
)
def test_harmless_text_is_accepted(text: str) -> None:
    assert not is_profane(text)


def test_all_faults_of_a_text_name_its_field() -> None:
    with pytest.raises(ValidationError) as caught:
        ensure_suitable("You bastard, call 0803 123 4567", name="text")

    assert [fault.name for fault in caught.value.invalid_params] == ["text", "text"]
    assert "a phone number" in caught.value.invalid_params[0].reason


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("Amara Ada Okafor", "Amara O."),
        ("Amara", "Amara"),
        ("  ngozi   adeyemi ", "ngozi A."),
        ("Ọlá Ọ̀ṣun", "Ọlá Ọ."),
        ("محمد علي", "محمد ع."),
        ("", "Student"),
        (None, "Student"),
    ],
)
def test_public_name_is_first_name_and_initial(name: str | None, public: str) -> None:
    assert public_name(name) == public
