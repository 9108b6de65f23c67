"""The base of all store errors, and the one that reading an item raises. It is below all folders, because ``schema``
raises it.

The tree of store errors is in ``operations.errors``.
"""

from ..runtime.printing import printable


class StoreError(Exception):
    """A store did not carry out an operation, or its answer is of no use. The text is always printable."""

    def __str__(self) -> str:
        return printable(super().__str__())


class Unreadable(StoreError):
    """A stored item is like no record of its key: its attributes are missing, or of the wrong type or size."""

    def __init__(self, pk: object, sk: object, problem: str) -> None:
        super().__init__(pk, sk, problem)
        self.problem = problem

    def __str__(self) -> str:
        pk, sk, problem = self.args
        return printable(f"the item {pk!r:.300}, {sk!r:.300} cannot be read: {problem}; correct it, or delete it")


class ForeignRecord(Unreadable):
    """A record of another product that is called zae-limiter, in whose registry each namespace has ``attribute``."""

    def __init__(self, pk: object, sk: object, attribute: str) -> None:
        told = f"it is the table of another product named zae-limiter, whose registry has {attribute!r}"
        super().__init__(pk, sk, f"{told}: that product may be in use, delete nothing")

    def __str__(self) -> str:
        return self.problem
