from zae_limiter.schema.table import INDEXES, create_table_request

REQUEST = create_table_request("my-app")


def test_the_table_is_on_demand_with_a_stream_of_both_images() -> None:
    assert REQUEST["BillingMode"] == "PAY_PER_REQUEST"
    assert REQUEST["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}


def test_every_key_attribute_is_defined_once_and_no_other() -> None:
    schemas = [REQUEST["KeySchema"], *(index["KeySchema"] for index in REQUEST["GlobalSecondaryIndexes"])]
    keyed = [part["AttributeName"] for schema in schemas for part in schema]
    assert [definition["AttributeName"] for definition in REQUEST["AttributeDefinitions"]] == keyed
    assert len(set(keyed)) == len(keyed) == 10


def test_only_the_index_of_children_holds_more_than_keys() -> None:
    assert {name: index.projection for name, index in INDEXES.items()} == {
        "GSI1": "ALL",
        "GSI2": "KEYS_ONLY",
        "GSI3": "KEYS_ONLY",
        "GSI4": "KEYS_ONLY",
    }
