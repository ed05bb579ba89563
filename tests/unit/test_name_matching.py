"""Plausibility check of a bank account name against the payee's names."""

import pytest

from marketplace.payouts.payees.name_matching import is_plausible_account_name


@pytest.mark.parametrize(
    ("account", "names"),
    [
        ("NGOZI ADEBAYO", ("Ngozi Adebayo",)),
        ("ADEBAYO NGOZI CHIDINMA", ("Ngozi Adebayo",)),
        ("ADÉBÁYÒ, NGỌZI", ("Ngozi Adebayo",)),
        ("ADEBAYO N", ("Adebayo",)),
        ("NGOZI LAMPS ENTERPRISES", ("Chidi Okafor", "Ngozi's Lamps")),
        ("LUMINA LTD", ("Lumina Store",)),
        ("ADEBAYO", ("Ngozi Adebayo",)),
        ("OKAFOR CHIDI", (None, "Chidi Okafor")),
    ],
)
def test_similar_name_is_plausible(account: str, names: tuple[str | None, ...]) -> None:
    assert is_plausible_account_name(account, *names)


@pytest.mark.parametrize(
    ("account", "names"),
    [
        ("OKAFOR BLESSING", ("Chidi Okafor",)),
        ("BLESSING EKE", ("Chidi Okafor", "Ngozi's Lamps")),
        ("GLOBAL VENTURES NIGERIA", ("Lumina Global Ventures",)),
        ("BLESSING EKE", (None,)),
        ("", ("Chidi Okafor",)),
        ("CHIDIOKAFOR", ("Chidi Okafor",)),
    ],
)
def test_different_name_is_not_plausible(account: str, names: tuple[str | None, ...]) -> None:
    assert not is_plausible_account_name(account, *names)
