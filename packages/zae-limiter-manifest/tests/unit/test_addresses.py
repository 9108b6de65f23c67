import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_manifest import Address, ManagedSet

SYSTEM, GPT_4, USER = Address(), Address("gpt-4"), Address("openai/gpt-4", "user-123")
addresses = st.sampled_from([SYSTEM, GPT_4, Address("b"), USER, Address("_default_", "user-123"), Address("b", "a")])


@pytest.mark.parametrize(
    ("address", "level", "target", "text"),
    [
        (SYSTEM, "system", None, "system"),
        (GPT_4, "resource", "gpt-4", "resource gpt-4"),
        (USER, "entity", "user-123/openai/gpt-4", "entity user-123/openai/gpt-4"),
        (Address("/v1/chat", "auth0|1"), "entity", "auth0|1//v1/chat", "entity auth0|1//v1/chat"),
        (Address("b", 'a/"'), "entity", r'"a/\""/b', r'entity "a/\""/b'),
    ],
)
def test_an_address_knows_its_level_and_what_people_call_it(
    address: Address, level: str, target: str | None, text: str
) -> None:
    assert (address.level, address.target, str(address)) == (level, target, text)


ids = st.text('ab/"\\é', min_size=1, max_size=4)


@given(ids, ids, ids, ids)
def test_no_two_addresses_share_a_target(entity: str, resource: str, other: str, thing: str) -> None:
    one, two = Address(resource, entity), Address(thing, other)
    assert (one == two) is (one.target == two.target)


def test_an_address_has_the_names_in_nfc() -> None:
    assert Address("n\u0303", "e\u0301") == Address("ñ", "é")
    assert ManagedSet.of([Address("n\u0303")]).resources == {"ñ"}


def test_an_entity_and_its_resource_are_two_fields() -> None:
    assert USER.to_dict() == {
        "level": "entity",
        "entity": "user-123",
        "resource": "openai/gpt-4",
        "target": "user-123/openai/gpt-4",
    }


@given(addresses)
def test_an_address_comes_back_from_plain_values_and_from_a_pickle(address: Address) -> None:
    assert Address.from_dict(address.to_dict()) == address
    assert pickle.loads(pickle.dumps(address)) == address


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("_default_", None), 'resource "_default_" is reserved'),
        (("a b", None), 'resource "a b" must be 1 to 128'),
        (("gpt-4", "a b"), 'entity "a b" must be 1 to 256'),
        (("gpt-4", "$SYSTEM"), r'entity "\$SYSTEM" is a reserved name'),
        (("gpt-4", "$RESOURCE:r"), r'entity "\$RESOURCE:r" is a reserved name'),
        ((5, None), "resource 5 must be a string"),
    ],
)
def test_what_is_no_address_is_refused(fields: tuple[str | None, str | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Address(*fields)


@given(st.sets(addresses))
def test_a_set_of_addresses_is_that_set_in_order(wanted: set[Address]) -> None:
    managed = ManagedSet.of(wanted)
    assert set(managed) == wanted
    assert len(managed) == len(wanted)
    assert list(managed) == sorted(wanted, key=lambda address: address.rank)
    assert ManagedSet.of(reversed(list(managed))) == managed


@given(st.sets(addresses), addresses)
def test_a_set_knows_what_it_holds(wanted: set[Address], address: Address) -> None:
    assert (address in ManagedSet.of(wanted)) is (address in wanted)
    assert "gpt-4" not in ManagedSet.of(wanted)  # type: ignore[comparison-overlap]


def test_the_order_is_system_resources_entities_each_by_name() -> None:
    wanted = ManagedSet(system=True, resources=["b", "a"], entities={"u-2": ["a"], "u-1": ["gpt-4", "_default_"]})
    targets = [None, "a", "b", "u-1/_default_", "u-1/gpt-4", "u-2/a"]
    assert [address.target for address in wanted] == targets
