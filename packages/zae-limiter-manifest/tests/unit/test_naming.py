import json
from pathlib import Path

import pytest

from zae_limiter_manifest import RESERVED_LIMIT_NAMES
from zae_limiter_manifest.naming import NameKind, find_name_problem

NAMES = json.loads((Path(__file__).parents[4] / "testdata" / "names.json").read_text("utf-8"))


@pytest.mark.parametrize("row", NAMES, ids=lambda row: f"{row['kind']}-{row['text']!a:.40}")
def test_the_shared_table_of_names_holds(row: dict[str, object]) -> None:
    assert (find_name_problem(NameKind(row["kind"]), row["text"]) is None) is row["ok"]


def test_the_shared_table_has_good_and_bad_names_of_every_kind() -> None:
    assert {(row["kind"], row["ok"]) for row in NAMES} == {
        (kind.value, ok) for kind in NameKind for ok in (True, False)
    }


@pytest.mark.parametrize("name", RESERVED_LIMIT_NAMES)
def test_a_reserved_name_would_be_good_if_it_were_not_reserved(name: str) -> None:
    assert find_name_problem(NameKind.LIMIT, name) == "is a reserved name"
    assert find_name_problem(NameKind.LIMIT, name + "x") is None


def test_the_problem_with_the_default_resource_says_what_it_stands_for() -> None:
    problem = find_name_problem(NameKind.RESOURCE, "_default_")
    assert problem == "is reserved: it means all resources of an entity"
