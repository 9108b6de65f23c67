import re
from functools import partial
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.schema import attributes, keys
from zae_limiter.schema.items import BucketId
from zae_limiter.values.naming import RESERVED_LIMIT_NAMES, check_identifier, check_limit_name, check_resource

nfc = partial(normalize, "NFC")
ns_ids = st.from_regex(r"[A-Za-z0-9_\-]{11}", fullmatch=True)
old_entities = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_\-.:@]{0,12}", fullmatch=True)
old_resources = st.from_regex(r"[A-Za-z][A-Za-z0-9_\-./:]{0,12}", fullmatch=True)
PIECES = [
    *"#$%/~_.:@|+*é",
    "%23",
    "%25",
    "$SYSTEM",
    "$RESOURCE:",
    "_default_",
    "BUCKET#",
    "/BUCKET#a#b#0",
    "ENTITY#",
    "#CONFIG#",
]
texts = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12) | st.lists(
    st.sampled_from([*PIECES, "a", "0"]), min_size=1, max_size=4
).map("".join)
entities = old_entities | texts.filter(lambda text: not text.startswith(("$SYSTEM", "$RESOURCE:"))).map(nfc)
resources = old_resources | texts.filter(lambda text: text != "_default_" and not text.endswith("*")).map(nfc)
limits = st.from_regex(r"[A-Za-z](?:[A-Za-z0-9_\-.]|_tk|_cp){0,12}", fullmatch=True)
windows = st.sampled_from(["2024-01-01T14:00:00Z", "2024-01-01"])
shards = st.integers(0, 63)


@given(ns_ids, entities, resources, shards)
def test_a_bucket_key_gives_back_its_parts(ns: str, entity: str, resource: str, shard: int) -> None:
    bucket = BucketId(ns, entity, resource, shard)
    assert keys.parse_bucket_pk(bucket.pk) == (ns, entity, resource, shard)
    assert BucketId.parse(bucket.pk) == bucket


@given(ns_ids, resources)
def test_a_resource_key_gives_back_its_resource(ns: str, resource: str) -> None:
    assert keys.parse_resource_pk(keys.pk_resource(ns, resource)) == resource


@given(ns_ids, entities | st.just(keys.audit_system()) | resources.map(keys.audit_resource))
def test_a_key_of_audit_events_gives_back_whose_they_are(ns: str, entity: str) -> None:
    assert keys.parse_audit_pk(keys.pk_audit(ns, entity)) == (ns, entity)


@given(ns_ids, entities, resources, windows)
def test_the_key_of_a_usage_snapshot_gives_back_its_parts(ns: str, entity: str, resource: str, window: str) -> None:
    assert keys.parse_entity_pk(keys.pk_entity(ns, entity)) == (ns, entity)
    assert keys.parse_usage_sk(keys.sk_usage(resource, window)) == (resource, window)


@pytest.mark.parametrize("sk", ["", "#META", "#USAGE#", "#USAGE#r", "#USAGE#r#w#x", "USAGE#r#w"])
def test_another_sort_key_is_no_usage_snapshot(sk: str) -> None:
    with pytest.raises(ValueError, match="not a usage snapshot"):
        keys.parse_usage_sk(sk)


@given(resources, entities)
def test_an_entity_configs_place_gives_back_its_parts(resource: str, entity: str) -> None:
    for until_ms in (None, 1_700_000_000_000):
        address = keys.EntityConfigAddress(resource, entity, until_ms)
        assert keys.parse_entity_config_sk(keys.gsi4_sk_entity_config(resource, entity, until_ms)) == address
        assert keys.parse_entity_sk(keys.encode(resource), keys.gsi3_sk_entity(entity, until_ms)) == address
    row = keys.gsi4_sk_entity_config(resource, entity, extends=True)
    assert keys.parse_entity_config_sk(row) == keys.EntityConfigAddress(resource, entity, extends=True)


@pytest.mark.parametrize("sk", ["a#", "a#x", "a#+1", "a#01", "a#1_0", "a#1#2", "a# 1", "a|b"])
def test_another_sort_key_is_no_entity_config(sk: str) -> None:
    with pytest.raises(ValueError, match=r"not an entity config|no name"):
        keys.parse_entity_sk("r", sk)


@pytest.mark.parametrize(
    "pk", ["", "ns", "ns/ENTITY#a", "ns/BUCKET#a", "ns/BUCKET#a#b", "ns/BUCKET#a#b#c", "BUCKET#a#b#0"]
)
def test_what_is_no_bucket_key_is_refused(pk: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        keys.parse_bucket_pk(pk)


Inputs = tuple[str, str, str, int, str]


def every_table_key(given: Inputs) -> list[tuple[tuple[str, ...], tuple[str, str]]]:
    """Each record with the inputs that it must be unique for."""
    ns, entity, resource, shard, window = given
    system, entity_pk, name = keys.pk_system(ns), keys.pk_entity(ns, entity), "a-namespace"
    return [
        (("meta", ns, entity), (entity_pk, keys.sk_meta())),
        (("bucket", ns, entity, resource, str(shard)), (keys.pk_bucket(ns, entity, resource, shard), keys.sk_state())),
        (("entity config", ns, entity, resource), (entity_pk, keys.sk_config(resource))),
        (("entity default", ns, entity), (entity_pk, keys.sk_config("_default_"))),
        (("resource config", ns, resource), (keys.pk_resource(ns, resource), keys.sk_config())),
        (("system config", ns), (system, keys.sk_config())),
        (("usage", ns, entity, resource, window), (entity_pk, keys.sk_usage(resource, window))),
        (("version", ns), (system, keys.sk_version())),
        (("audit", ns, entity), (keys.pk_audit(ns, entity), keys.sk_audit("1"))),
        (("audit of resource", ns, resource), (keys.pk_audit(ns, keys.audit_resource(resource)), keys.sk_audit("1"))),
        (("audit of system", ns), (keys.pk_audit(ns, keys.audit_system()), keys.sk_audit("1"))),
        (("provisioner", ns, str(shard)), (system, keys.sk_provisioner(shard))),
        (("namespace", name), (keys.pk_system("_"), keys.sk_namespace(name))),
        (("namespace id", ns), (keys.pk_system("_"), keys.sk_nsid(ns))),
    ]


inputs = st.tuples(ns_ids, entities, resources, shards, windows)


names = entities | resources | st.just("_default_")


@given(names, names)
def test_no_two_names_share_a_key(one: str, other: str) -> None:
    assert keys.decode(keys.encode(one)) == one
    assert (keys.encode(one) == keys.encode(other)) is (one == other)


@given(names)
def test_a_name_in_a_key_has_no_character_of_the_keys_themselves(name: str) -> None:
    assert re.fullmatch(r"(?:[A-Za-z0-9_\-.~:@/]|%[0-9A-F]{2})+", keys.encode(name))


@given(old_entities | old_resources)
def test_an_old_name_is_in_keys_as_it_is(name: str) -> None:
    assert keys.encode(name) == name


@pytest.mark.parametrize(
    "part", ["%7c", "%41", "%", "%4", "%zz", "a|b", "é", "e%CC%81", "%FF", "%ED%A0%80", "a#b", "%2F"]
)
def test_what_no_name_is_encoded_to_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match=r"no name in a key|decode"):
        keys.decode(part)


@given(st.text() | st.lists(st.sampled_from([*PIECES, "%7C", "%CC%81", "a"])).map("".join))
def test_two_keys_never_give_one_name(part: str) -> None:
    try:
        name = keys.decode(part)
    except ValueError:
        return
    assert keys.encode(name) == part
    assert nfc(name) == name


def test_the_widest_names_fit_every_key() -> None:
    """DynamoDB takes 2,048 bytes of a partition key and 1,024 of a sort key, in the table and in each index."""
    for entity in ("|" * 170, "é" * 85, "/" * 170, "a" * 256, "日" * 56):
        for resource in ("|" * 128, "é" * 64, "/" * 128, "r" * 128):
            ns, window = "n" * 64, "2024-01-01T14:00:00Z"
            bucket, config = BucketId(ns, entity, resource, 63), keys.gsi4_sk_entity_config(resource, entity)
            subjects = (entity, keys.audit_resource(resource))
            for pk in (bucket.pk, *(keys.pk_audit(ns, subject) for subject in subjects)):
                assert len(pk.encode()) <= 1024  # which is a sort key of GSI4, too
            sort_keys = [value for name, value in bucket.attributes().items() if name.endswith("SK")]
            sort_keys += [config, keys.gsi4_after_resource(resource), keys.gsi2_sk_usage(window, entity)]
            sort_keys += [keys.sk_usage(resource, window), keys.sk_config(resource), keys.gsi1_sk_child(entity)]
            assert max(len(key.encode()) for key in sort_keys) <= 1024
            assert check_identifier("entity", entity), check_resource("resource", resource)


@given(inputs, inputs)
def test_two_records_never_share_a_key(one: Inputs, other: Inputs) -> None:
    places: dict[tuple[str, str], tuple[str, ...]] = {}
    for identity, place in [*every_table_key(one), *every_table_key(other)]:
        assert places.setdefault(place, identity) == identity


@given(resources, resources, entities)
def test_skipping_a_resource_skips_its_entity_configs_alone(one: str, other: str, entity: str) -> None:
    behind = keys.gsi4_after_resource(one)
    assert keys.gsi4_sk_entity_config(one, entity) < behind
    if keys.encode(other) > keys.encode(one):
        assert keys.gsi4_sk_entity_config(other, entity) > behind


@given(limits, st.sampled_from(attributes.BucketAttributes._fields))
def test_a_buckets_attribute_gives_back_limit_and_field(limit: str, field: str) -> None:
    attribute = getattr(attributes.bucket_attributes(limit), field)
    assert attributes.parse_bucket_attribute(attribute) == (limit, field)


@given(limits, st.sampled_from(attributes.LimitAttributes._fields))
def test_a_configs_attribute_is_none_of_a_bucket(limit: str, field: str) -> None:
    attribute = getattr(attributes.limit_attributes(limit), field)
    assert attributes.parse_bucket_attribute(attribute) is None


def test_the_stored_names_are_those_of_the_tables_that_exist() -> None:
    assert attributes.bucket_attributes("rpm") == (
        "b_rpm_tk",
        "b_rpm_tc",
        "b_rpm_mt",
        "b_rpm_ep",
        "b_rpm_eb",
        "b_rpm_he",
        "b_rpm_ho",
        "b_rpm_bg",
        "b_rpm_fr",
        "b_rpm_xs",
        "b_rpm_xu",
        "b_rpm_si",
        "b_rpm_cp",
        "b_rpm_bx",
        "b_rpm_ra",
        "b_rpm_rp",
        "b_rpm_kd",
        "b_rpm_wn",
        "b_rpm_tz",
        "b_rpm_so",
        "b_rpm_ex",
        "b_rpm_al",
        "b_rpm_un",
    )
    assert attributes.limit_attributes("rpm") == (
        "l_rpm_cp",
        "l_rpm_bx",
        "l_rpm_ra",
        "l_rpm_rp",
        "l_rpm_sh",
        "l_rpm_kd",
        "l_rpm_pf",
        "l_rpm_wn",
        "l_rpm_tz",
        "l_rpm_so",
        "l_rpm_wt",
        "l_rpm_ex",
        "l_rpm_sc",
        "l_rpm_al",
        "l_rpm_un",
    )
    assert (attributes.ANCHOR, attributes.CONFIG_AS_OF, attributes.ACQUIRES) == ("rf", "cv", "ev")


@pytest.mark.parametrize(
    "name", ["", "b_", "b__tk", "b_tk", "b_x_zz", "b_x_", "rf", "ttl", "entity_id", "l_x_cp", "PK"]
)
def test_other_attributes_of_a_bucket_are_no_limits(name: str) -> None:
    assert attributes.parse_bucket_attribute(name) is None


@given(limits)
def test_the_names_of_these_tests_are_good_names(limit: str) -> None:
    if limit not in RESERVED_LIMIT_NAMES and len(limit) <= 64:
        assert check_limit_name("limit", limit) == limit


@given(entities, resources)
def test_the_identifiers_of_these_tests_are_good_identifiers(entity: str, resource: str) -> None:
    assert (check_identifier("entity", entity), check_resource("resource", resource)) == (entity, resource)


def test_the_keys_of_tables_that_exist_are_what_they_were() -> None:
    bucket = BucketId("ns", "a_b.c-d:1@x.example", "openai/gpt-4:1", 3)
    assert bucket.attributes() == {
        "PK": "ns/BUCKET#a_b.c-d:1@x.example#openai/gpt-4:1#3",
        "SK": "#STATE",
        "GSI2PK": "ns/RESOURCE#openai/gpt-4:1",
        "GSI2SK": "BUCKET#a_b.c-d:1@x.example#3",
        "GSI3PK": "ns/ENTITY#a_b.c-d:1@x.example",
        "GSI3SK": "BUCKET#openai/gpt-4:1#3",
        "GSI4PK": "ns",
        "GSI4SK": "ns/BUCKET#a_b.c-d:1@x.example#openai/gpt-4:1#3",
        "entity_id": "a_b.c-d:1@x.example",
        "resource": "openai/gpt-4:1",
    }
    assert keys.pk_audit("ns", keys.audit_resource("openai/gpt-4:1")) == "ns/AUDIT#$RESOURCE:openai/gpt-4:1"


def test_an_id_of_a_login_service_is_encoded_in_keys_alone() -> None:
    item = BucketId("ns", "auth0|123", "/v1/chat+completions").attributes()
    assert (item["PK"], item["GSI3PK"]) == ("ns/BUCKET#auth0%7C123#/v1/chat%2Bcompletions#0", "ns/ENTITY#auth0%7C123")
    assert (item["entity_id"], item["resource"]) == ("auth0|123", "/v1/chat+completions")
