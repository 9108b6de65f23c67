"""Images of a bucket item, as the table's stream has them, read strictly.

Any program with write access may damage a bucket. A problem is logged with the name of a bucket's number at most: the
name of another attribute may be anything, and a value is never logged.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import compress
from operator import ne
from typing import Any, Final

from ...exceptions import ValidationError
from ...rules.sharding import MAX_SHARDS, SHARD_COUNTS
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import (
    ANCHOR,
    COUNTERS,
    OF_TEXT,
    SHARD_COUNT,
    WCU,
    WRITES_THEN,
    parse_bucket_attribute,
    parse_refused_by,
)
from ...schema.forms import remember_forms
from ...schema.items import BucketId, Item
from ...values.limits import MAX_LIMITS
from ...values.naming import check_identifier, check_limit_name, check_namespace_id, check_resource
from .marshal import read_value

MOST: Final = 10**30  # of a counter: a window adds up a great many such numbers before DynamoDB's 38 digits are full

_NUMBERS: Final = frozenset((ANCHOR, SHARD_COUNT, *COUNTERS, WRITES_THEN))
_WHOLE: Final = re.compile(r"-?[0-9]{1,38}")
_FLAT: Final = frozenset((int, str))


def check_bucket(bucket: BucketId) -> BucketId:
    """Return the id, if core could have written it. Raises ``ValueError``."""
    try:
        check_namespace_id("namespace id", bucket.namespace_id)
        check_identifier("entity", bucket.entity_id)
        check_resource("resource", bucket.resource)
    except ValidationError as error:
        raise ValueError(f"the key has no valid {error.field}") from None
    if not 0 <= bucket.shard < MAX_SHARDS:
        raise ValueError(f"the key has no shard from 0 to {MAX_SHARDS - 1}")
    return bucket


class BucketImages:
    """Reads the images of a batch: of an image, only what differs from the bucket's image before it is parsed.

    A write changes about six attributes of 25. The others are equal to what was checked, so they are sound.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def read(self, pk: str, image: object) -> Item:
        """Return the item in an image of the bucket with this partition key: its numbers are whole and within bounds,
        its limits have valid names. Raises ``ValueError``.
        """
        if not isinstance(image, dict):
            raise ValueError("the image is not a map")
        form, seen = _form(tuple(image)), self._seen.get(pk)
        if seen is None or seen.form is not form:
            item, differing = Item(), list(image)
        else:
            differing = list(compress(image, map(ne, image.values(), seen.image.values())))
            if seen.unlike:  # in the order of the image: its first problem is reported
                again = seen.unlike.union(differing)
                differing = [name for name in image if name in again]
            if not differing:  # the old image of a bucket in use: the new one of the record before
                return seen.item
            item = seen.item.copy()
        _read(image, differing, form, item)
        form.check(item)
        # Values of other kinds may equal one that is refused: True equals 1.
        unlike = frozenset(name for name in differing if type(item[name]) not in _FLAT)
        self._seen[pk] = _Seen(image, form, item, unlike)
        return item


class _Seen(NamedTuple):
    """An image that was read, and the item in it; ``unlike`` are the attributes that are read again in any case."""

    image: Mapping[str, Any]
    form: "_Form"
    item: Item
    unlike: frozenset[str]


class _Column(NamedTuple):
    """What an attribute's name says: whether it is a number, and the limit that it belongs to; or why it is refused."""

    is_number: bool
    limit: str | None = None
    is_of_refuser: bool = False
    problem: str | None = None


class _Form(NamedTuple):
    """What the names of an image say: its columns, which one is ``missing``, or of what there are ``too_many``."""

    columns: Mapping[str, _Column]
    missing: str | None
    too_many: str | None

    def check(self, item: Item) -> None:
        """Check an item of this form beyond its single attributes. Raises ``ValueError``."""
        if self.missing is not None:
            raise ValueError(f"{self.missing} is missing")
        if item[SHARD_COUNT] not in SHARD_COUNTS:
            raise ValueError(f"{SHARD_COUNT} is not a power of two up to {MAX_SHARDS}")
        if self.too_many is not None:
            raise ValueError(f"there are more than {self.too_many}")


def _read(image: Mapping[str, Any], names: Iterable[str], form: _Form, item: Item) -> None:
    """Set the values of attributes in the item of an image. Raises ``ValueError`` for the first that is damaged."""
    for name in names:
        value, column = image[name], form.columns[name]
        if column.is_number:
            try:
                digits = value["N"]
                if not (_WHOLE.fullmatch(digits) and -MOST <= (number := int(digits)) <= MOST):
                    raise ValueError
            except (TypeError, ValueError, KeyError):
                told = "a count of refusals" if column.is_of_refuser else name  # whose name has the id of an ancestor
                raise ValueError(f"{told} is not a whole number from -10^30 to 10^30") from None
            item[name] = number
        elif column.problem is not None:
            raise ValueError(column.problem)
        else:
            try:
                [(kind, content)] = value.items()
                # Most are texts: no call for them.
                item[name] = content if kind == "S" and type(content) is str else read_value(value)
            except (TypeError, ValueError, AttributeError):
                raise ValueError("an attribute other than the numbers of a bucket cannot be read") from None


@remember_forms
def _form(names: tuple[str, ...]) -> _Form:
    """Parse the names of an image; the same ones come with nearly every image."""
    columns = {name: _column(name) for name in names}
    missing = next((name for name in (ANCHOR, SHARD_COUNT) if name not in columns), None)
    limits = {each.limit for each in columns.values()} - {None, WCU}
    refusers = sum(each.is_of_refuser for each in columns.values())
    if len(limits) > MAX_LIMITS:
        return _Form(columns, missing, f"{MAX_LIMITS} limits")
    most = 2 * MAX_LIMITS  # processes add some at once
    return _Form(columns, missing, f"{most} limits of ancestors" if refusers > most else None)


def _column(name: str) -> _Column:
    """Parse the name of an attribute."""
    attribute, refuser = parse_bucket_attribute(name), parse_refused_by(name)
    if refuser is not None:
        try:
            check_identifier("entity", refuser.entity_id)
        except ValidationError:
            return _Column(is_number=False, problem="a count of refusals names no valid ancestor")
        column = _Column(is_number=True, is_of_refuser=True)
        return column if refuser.is_disabled else _of_limit(refuser.limit_name, column)
    if attribute is None:
        return _Column(name in _NUMBERS)
    column = _Column(attribute.field not in OF_TEXT, attribute.limit)
    return _of_limit(attribute.limit, column) if column.is_number and attribute.limit != WCU else column


def _of_limit(limit: str, column: _Column) -> _Column:
    """Return the column of a limit, if its name is valid."""
    try:
        check_limit_name("limit", limit)
    except ValidationError:
        return _Column(is_number=False, problem="the name of an attribute has no valid name of a limit")
    return column
