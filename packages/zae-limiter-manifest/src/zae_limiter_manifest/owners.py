"""Who owns the limits of a namespace: the command line, or one resource of one CloudFormation stack.
Never keeps the owner: that is the state's."""

from typing import Final

CLI: Final = "cli"


class OwnerError(ValueError):
    """Another owner has applied limits to this namespace."""

    def __init__(self, owner: str, asking: str) -> None:
        self.owner = owner
        self.asking = asking
        super().__init__(owner, asking)

    def __str__(self) -> str:
        return (
            f"{self.owner} manages the limits of this namespace, not {self.asking}: to take them over, "
            "give --take-over, or in a stack the property TakeOver: true"
        )


def stack_owner(stack_id: str, logical_id: str) -> str:
    """The owner that a resource of a stack is, whatever its physical id."""
    return f"stack:{stack_id}/{logical_id}"


def taken_from(owner: str | None, asking: str, *, take_over: bool = False) -> str | None:
    """Whom the namespace is taken from; None where it has no owner or has this one; raises `OwnerError`."""
    if owner is None or owner == asking:
        return None
    if not take_over:
        raise OwnerError(owner, asking)
    return owner
