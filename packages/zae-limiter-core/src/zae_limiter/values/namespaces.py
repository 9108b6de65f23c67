"""A namespace's registration, as a value. ``schema`` stores it, ``flows`` change it."""

from ..runtime.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace of a table: its name, and the id that all its keys begin with.

    ``created_at`` and ``deleted_at`` are ISO times in UTC; ``deleted_at`` is ``None`` while it is in use.
    """

    name: str
    namespace_id: str
    created_at: str
    deleted_at: str | None = None
