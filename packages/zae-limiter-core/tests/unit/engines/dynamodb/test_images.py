"""Images of a bucket are read alike, alone and beside the image before."""

from typing import Any

import pytest

from support.core.damage import GONE, leaves, wrong
from zae_limiter.engines.dynamodb.images import BucketImages
from zae_limiter.engines.dynamodb.marshal import write_item

ITEM: dict[str, Any] = {
    "PK": "ns/BUCKET#key-abc#gpt-4#0",
    "SK": "#STATE",
    "rf": 1_600_000_000_000,
    "cv": 1_600_000_000_000,
    "shard_count": 1,
    "cascade": True,
    "parent_id": "p",
    "ev": 3,
    "rj_p/rpm": 1,
    "b_wcu_tc": 3000,
    "b_rpm_tk": 5000,
    "b_rpm_cp": 60_000,
    "b_rpm_al": "80",
}
BEFORE = write_item(ITEM)
AFTER = write_item({**ITEM, "ev": 4, "b_wcu_tc": 4000, "b_rpm_tk": 4000})
NUMBERS = ("1", "1.0", "01", "1_0", " 1", "1E+2", "-0", "9" * 38, "9" * 39, "\u0661", "", 1, True, None)
ODD: list[Any] = [
    *({"N": each} for each in NUMBERS),
    *({"BOOL": each} for each in (True, False, 1, "true")),
    *({"S": each} for each in ("1", "3", 1, None, ["1"])),
    *({"NULL": each} for each in (True, 1)),
    *({}, [], None, "1", {"S": "1", "N": "1"}, {"B": "YQ=="}, {"SS": ["a"]}),
    *({"L": [{"N": "1"}]}, {"M": {"a": {"BOOL": 1}}}),
]


def read(images: BucketImages, image: Any) -> Any:
    """Return the item in an image, or the text of its problem."""
    try:
        return images.read("pk", image)
    except (ValueError, OverflowError) as error:
        return str(error)


def beside(before: Any, image: Any) -> Any:
    images = BucketImages()
    read(images, before)
    return read(images, image)


def with_value(image: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the image with another value at a path."""
    name, *rest = path
    changed = {**image, name: with_value(image[name], tuple(rest), value) if rest else value}
    return {name: each for name, each in changed.items() if each is not GONE}


def damaged() -> list[Any]:
    deep = [with_value(AFTER, path, value) for path, old in leaves(AFTER) for value in wrong(old, "another's").values()]
    return [*deep, *(AFTER | {name: value} for name in AFTER for value in ODD)]


def test_an_image_is_read_beside_another_as_alone() -> None:
    refused = 0
    for image in damaged():
        alone = read(BucketImages(), image)
        refused += isinstance(alone, str)
        assert repr(beside(BEFORE, image)) == repr(alone), image  # repr: True equals 1
        assert repr(beside(image, AFTER)) == repr(BucketImages().read("", AFTER)), image
    assert refused > 200


@pytest.mark.parametrize("more", [{"b_tpm_tc": 5}, {"rj_q/rpm": 1}, {"ttl": 5}, {"other": {"a": [None]}}], ids=str)
def test_an_image_may_have_other_names_than_the_one_before(more: dict[str, Any]) -> None:
    wider = write_item({**ITEM, **more})
    assert beside(BEFORE, wider) == ITEM | more
    assert beside(wider, BEFORE) == ITEM


def test_every_image_is_a_map_with_an_anchor() -> None:
    assert read(BucketImages(), [1]) == "the image is not a map"
    without = {name: value for name, value in AFTER.items() if name != "rf"}
    assert beside(BEFORE, without) == "rf is missing"


def test_images_do_not_share_what_differs() -> None:
    images = BucketImages()
    before, after = images.read("pk", BEFORE), images.read("pk", AFTER)
    assert (before, after) == (ITEM, ITEM | {"ev": 4, "b_wcu_tc": 4000, "b_rpm_tk": 4000})
    assert images.read("another", BEFORE) == ITEM
