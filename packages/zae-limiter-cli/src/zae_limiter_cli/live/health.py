"""Whether all parts of the stack are well, in one line."""

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..connection import Connection
    from ..stack.status import Check

SECONDS: Final = 60.0  # a look takes some requests to AWS, and five reads of the table


class Health:
    """Looks at the parts of a stack once a minute. A file has none."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._look_at = 0.0
        self._line = ""

    def line(self) -> str:
        """Return what is wrong, or that nothing is."""
        if self._connection.file is not None:
            return f"file {self._connection.file.name}"
        if monotonic() >= self._look_at:
            from botocore.exceptions import BotoCoreError, ClientError

            from ..stack.status import checks

            try:
                self._line = told(list(checks(self._connection)))
            except (BotoCoreError, ClientError) as error:
                self._line = f"the parts of the stack cannot be seen: {' '.join(str(error).split())}"
            self._look_at = monotonic() + SECONDS
        return self._line


def told(checks: "Sequence[Check]") -> str:
    """Return the checks as a line."""
    bad = [f"{each.part}: {each.message}" for each in checks if each.ok is False]
    if bad:
        return "; ".join(bad)
    well = f"{sum(each.ok is True for each in checks)} parts of the stack are well"
    counted = [each.message.partition(", ")[2] for each in checks if each.part == "stream" and each.ok]
    return "; ".join([well, *counted])
