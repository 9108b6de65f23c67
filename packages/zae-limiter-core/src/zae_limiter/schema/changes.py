"""What the images of a bucket item, one before and one after, say happened between them.

Lives here: the difference of two images. Never: where images come from, what is done about them (aggregator).
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ..limits import MILLI
from .attributes import ACQUIRES, ANCHOR, SHARD_COUNT, WCU, parse_bucket_attribute
from .items import ONE_WRITE, WRITES

Image = Mapping[str, Any]
NO_ITEM: Final[Image] = {}


class Consumption(NamedTuple):
    """Tokens consumed less those given back, by limit, without limits that did not move; and acquires admitted.

    ``rests``: the thousandths beside them. One shard alone has some where several served a request.
    """

    tokens: Mapping[str, int]
    events: int
    rests: Mapping[str, int] = NO_ITEM

    def __bool__(self) -> bool:
        """Whether there was any."""
        return bool(self.tokens or self.events)


def consumption(before: Image | None, after: Image) -> Consumption:
    """What was consumed between two images; all that ``after`` says where there was no item before.

    The differences of all the changes of an item add up to what it says at the end, tokens and rests each.
    """
    old, new = _counters(before or NO_ITEM), _counters(after)
    if new.has_just_begun:
        return Consumption({}, 0)  # what it replaces outlived its bucket: that is not given back
    tokens: dict[str, int] = {}
    rests: dict[str, int] = {}
    for limit, total in new.milli.items():
        former = old.milli.get(limit, 0)
        if total != former:
            tokens[limit] = total // MILLI - former // MILLI
        if total % MILLI != former % MILLI:
            rests[limit] = total % MILLI - former % MILLI
    return Consumption(tokens, new.events - old.events, rests)


def writes(before: Image | None, after: Image) -> int:
    """By how many writes the item counts more than before, that of the later image among them."""
    counted: int = after.get(WRITES, 0) - (before or NO_ITEM).get(WRITES, 0)
    return counted // ONE_WRITE


def anchor_of(image: Image) -> Any:
    """The instant that the balances of a bucket shard are expressed for, in epoch ms, unchecked."""
    return image[ANCHOR]


def shard_count_of(image: Image) -> Any:
    """Among how many shards the bucket is divided, as a shard of it says, unchecked."""
    return image[SHARD_COUNT]


class _Counters(NamedTuple):
    """All that an item has counted: millitokens by limit, acquires, and its own writes."""

    milli: Mapping[str, int]
    events: int
    writes: int

    @property
    def has_just_begun(self) -> bool:
        """Whether it is a shard as a split puts it, which nobody has consumed from."""
        return self.writes == ONE_WRITE and not self.events and not any(self.milli.values())


def _counters(image: Image) -> _Counters:
    milli = {}
    for name, total in image.items():
        attribute = parse_bucket_attribute(name)
        if attribute is not None and attribute.field == "consumed" and attribute.limit != WCU:
            milli[attribute.limit] = total
    return _Counters(milli, image.get(ACQUIRES, 0), image.get(WRITES, 0))
