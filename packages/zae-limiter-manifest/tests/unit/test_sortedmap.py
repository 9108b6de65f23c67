import pickle

import pytest

from zae_limiter_manifest.sortedmap import SortedMap


def test_it_equals_any_map_of_the_same_entries_in_any_order() -> None:
    frozen = SortedMap({"a": 1, "b": 2})
    assert frozen == {"b": 2, "a": 1}
    assert hash(frozen) == hash(SortedMap({"b": 2, "a": 1}))
    assert frozen != SortedMap({"a": 1})


def test_it_is_a_copy_that_cannot_be_changed() -> None:
    origin = {"a": 1}
    frozen = SortedMap(origin)
    origin["a"] = 2
    assert frozen["a"] == 1
    with pytest.raises(TypeError):
        frozen["a"] = 3


def test_it_is_in_the_order_of_its_keys_also_after_a_pickle() -> None:
    copy = pickle.loads(pickle.dumps(SortedMap({"b": 1, "a": 2})))
    assert list(copy.items()) == list(zip(copy.keys(), copy.values(), strict=True)) == [("a", 2), ("b", 1)]
