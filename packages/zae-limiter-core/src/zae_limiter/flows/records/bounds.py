"""The bounds of a namespace's delegation: a text in the registry, by the namespace's name.

There, a purge of the namespace does not remove them, and no policy of one namespace may write them.
"""

from ...operations.values import Delete, Key, Put
from ...schema import keys
from ...schema.registry import bounds_item, read_bounds
from ...values.naming import check_namespace
from ..retry import read, with_retries
from ..steps import Flow


def bounds_of(name: str) -> Flow[str | None]:
    """Return the bounds of a namespace, which need not exist; ``None`` if it has none."""
    item = yield from read(_key(name))
    return None if item is None else read_bounds(item)


def set_bounds(name: str, content: str | None) -> Flow[None]:
    """Replace the bounds of a namespace; remove them for ``None``."""
    key = _key(name)
    yield from with_retries(Delete(key) if content is None else Put(bounds_item(name, content)))


def _key(name: str) -> Key:
    return Key(keys.pk_system(keys.REGISTRY), keys.sk_bounds(check_namespace("name", name)))
