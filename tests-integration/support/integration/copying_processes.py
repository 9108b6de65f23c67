"""What lives here: a process that copies a file to a table, and may die on the way.
What never does: what the copy has to be like.
"""

from multiprocessing.connection import Connection
from pathlib import Path

from zae_limiter import Options, SyncRepository, maintenance
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.flows.records import copying, registry
from zae_limiter.operations.values import BatchWrite, Delete, Put, Transact, Update
from zae_limiter.wiring import clock_over, namespace_state_of

from .split_processes import ADMITTED, TIMEOUT, Ledger, MortalStore, Place

ITEMS_PER_PAGE = 7
WRITES = (Put, Update, Delete, Transact, BatchWrite)


def copier(place: Place, pipe: Connection, ledger: Ledger, path: Path) -> None:
    """When told to, copy; the ledger has how many namespaces this process copied."""
    copying.ITEMS_PER_PAGE = ITEMS_PER_PAGE  # a few items have several pages
    registry.SETTLE_SECONDS = 0.1
    reached = SyncDynamoDBStore(
        place.table_name, region="us-east-1", endpoint_url=place.endpoint_url, read_timeout=TIMEOUT
    )
    store = MortalStore(reached, place)
    options = Options(read_timeout=TIMEOUT)
    clock = clock_over(store, options)
    target = SyncRepository(store, namespace_state_of(options, "", "", clock), options, clock)
    source = maintenance.open_table(Options(store=f"sqlite:///{path}"))
    forecasts = maintenance.forecast_copy(source, target, ())
    pipe.send("ready")
    pipe.recv()
    store.armed = True
    ledger[ADMITTED] = len(maintenance.copy(source, target, forecasts, report=lambda _: None))
    pipe.send("done")
    pipe.recv()
    target.close()
    source.close()
