import pickle

import pytest

from zae_limiter_manifest.frozenmap import FrozenMap


def test_it_equals_any_map_of_the_same_entries_in_any_order() -> None:
    frozen = FrozenMap({"a": 1, "b": 2})
    assert frozen == {"b": 2, "a": 1}
    assert hash(frozen) == hash(FrozenMap({"b": 2, "a": 1}))
    assert frozen != FrozenMap({"a": 1})


def test_it_is_a_copy_that_cannot_be_changed() -> None:
    origin = {"a": 1}
    frozen = FrozenMap(origin)
    origin["a"] = 2
    assert frozen["a"] == 1
    with pytest.raises(TypeError):
        frozen["a"] = 3  # type: ignore[index]


def test_it_keeps_its_order_through_a_pickle() -> None:
    copy = pickle.loads(pickle.dumps(FrozenMap({"b": 1, "a": 2})))
    assert list(copy.items()) == [("b", 1), ("a", 2)]
