"""The owner of a namespace's limits: the command line, or one resource of one CloudFormation stack."""

from typing import Final

CLI: Final = "cli"


class OwnerError(ValueError):
    """Another owner has applied limits to this namespace."""

    def __init__(self, owner: str, requester: str) -> None:
        self.owner = owner
        self.requester = requester
        super().__init__(owner, requester)

    def __str__(self) -> str:
        return (
            f"{self.owner} manages the limits of this namespace, not {self.requester}: to take them over, "
            "give --take-over, or in a stack the property TakeOver: true"
        )


def stack_owner(stack_id: str, logical_id: str) -> str:
    """Return the owner name of a stack's resource, independent of its physical id."""
    return f"stack:{stack_id}/{logical_id}"


def taken_from(owner: str | None, requester: str, *, take_over: bool = False) -> str | None:
    """Return the owner from whom the namespace is taken; None if it has no owner or this one; raises `OwnerError`."""
    if owner is None or owner == requester:
        return None
    if not take_over:
        raise OwnerError(owner, requester)
    return owner
