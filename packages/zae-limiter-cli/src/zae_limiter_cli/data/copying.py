"""Copy namespaces between two places, each a stack or a file."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import quote

from zae_limiter import SyncRepository, maintenance
from zae_limiter.exceptions import InfrastructureError, NamespaceNotFoundError, NamespaceStateError
from zae_limiter.maintenance import CopyForecast

from ..columns import counted
from ..connection import Connection
from ..errors import CommandError
from ..progress import Reporter, now_and_then

AGAIN: Final = "what is not complete there cannot be opened: run the same command again, which begins it anew"


def place_of(name: str, aws: Mapping[str, str | None], *, option: str) -> Connection:
    """Return the connection to the file of a URL, or to a stack in that AWS. Raises ``CommandError``."""
    if ":" in name:
        return Connection.of_store(name, source=option)
    return Connection(name, aws["region"], aws["profile"], aws["endpoint_url"])


@dataclass(frozen=True, slots=True)
class Copying:
    """A copy from one open table to another."""

    source: SyncRepository
    target: SyncRepository

    def forecast(self, names: Collection[str]) -> list[CopyForecast]:
        """Return what a copy of these namespaces would write, or of all. Raises ``CommandError`` for a missing one."""
        try:
            return maintenance.forecast_copy(self.source, self.target, names)
        except NamespaceNotFoundError as error:
            raise CommandError(f"there is no namespace {error.namespace!r} to copy from") from error

    def run(self, wanted: Sequence[CopyForecast], report: Reporter) -> dict[str, str]:
        """Copy, and return the id of each namespace in the target. Raises ``CommandError`` if it ends on the way."""
        total = counted(sum(each.items for each in wanted), "item")
        told = now_and_then(lambda count: report(f"{count:,} of {total} copied"))
        try:
            made = maintenance.copy(self.source, self.target, wanted, report=told)
        except NamespaceStateError:
            raise
        except InfrastructureError as error:
            raise CommandError(f"{error}: {AGAIN}") from error
        except KeyboardInterrupt:
            raise CommandError(f"stopped in the middle of a copy: {AGAIN}") from None
        return {each.name: each.namespace_id for each in made}


@contextmanager
def both(source: Connection, target: Connection, *, look: bool = False) -> Iterator[Copying]:
    """Open both places, without a namespace; to ``look`` makes no file: an empty one elsewhere stands for it.

    Raises ``CommandError`` if they are one, or the source has no file.
    """
    if source == target:
        raise CommandError(f"--from and --to are both {source.name}")
    if source.file is not None and not source.file.exists():
        raise CommandError(f"--from: there is no file {source.file}")
    with ExitStack() as opened:
        if look and target.could_be_made:
            folder = opened.enter_context(TemporaryDirectory())
            target = Connection.of_store(f"sqlite:///{quote(folder)}/empty.db", source="--to")
        reading = opened.enter_context(source.open_table())
        yield Copying(reading, opened.enter_context(target.open_table()))
