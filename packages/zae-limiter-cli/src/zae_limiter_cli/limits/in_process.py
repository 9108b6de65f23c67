"""The provisioner's code in this process, for limits in a file. It is installed, not imported: entry points name it."""

from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final, Literal

from zae_limiter_manifest import Answer, Request

from ..connection import Connection
from ..errors import CommandError

if TYPE_CHECKING:
    from zae_limiter import SyncStore

GROUP: Final = "zae_limiter.provisioner"
ENTRIES: Final = {"planner": "read", "provisioner": "perform"}


@dataclass(frozen=True, slots=True)
class InProcess:
    """The planner or the provisioner over the file of a connection."""

    connection: Connection
    kind: Literal["planner", "provisioner"]

    def ask(self, request: Request) -> Answer:
        """Carry out a request, and return the answer. Raises ``CommandError`` for a missing file, unless the request
        makes it.
        """
        (entry,) = entry_points(group=GROUP, name=ENTRIES[self.kind])
        store = self._store(request)
        try:
            answer: Answer = entry.load()(store, self.connection.name, request)
            return answer
        finally:
            store.close()

    def apply(self, request: Request) -> Answer:
        """Apply as ``ask`` does. Raises ``CommandError`` if Ctrl-C ends it, which frees the lock."""
        try:
            return self.ask(request)
        except KeyboardInterrupt:
            again = "run the command again, which makes the rest of the changes"
            raise CommandError(f"{request.namespace}: stopped in the middle: {again}") from None

    def _store(self, request: Request) -> "SyncStore":
        from zae_limiter.stores import SyncMemoryStore

        connection = self.connection
        if connection.could_be_made and request.action in {"plan", "diff"}:
            return SyncMemoryStore()  # an apply would make the file, a plan writes nothing
        if request.action not in {"plan", "diff", "apply"}:
            connection.check_there()
        return connection.open_file()
