"""What lives here: a process that migrates a table by rehearsed migrations, and may die on the way.
What never does: what the table has to be like.
"""

from multiprocessing.connection import Connection

from support.core.rehearsal import REHEARSED
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.flows.records import migrating
from zae_limiter.sync.driver import SyncDriver

from .split_processes import ADMITTED, TIMEOUT, Ledger, MortalStore, Place

ITEMS_PER_PAGE = 5


def migrator(place: Place, pipe: Connection, ledger: Ledger) -> None:
    """When told to, migrate the table; the ledger has how many migrations this process finished."""
    migrating.ITEMS_PER_PAGE = ITEMS_PER_PAGE  # a few items have several pages
    reached = SyncDynamoDBStore(
        place.table_name, region="us-east-1", endpoint_url=place.endpoint_url, read_timeout=TIMEOUT
    )
    store = MortalStore(reached, place)
    driver = SyncDriver(store, operation_timeout=TIMEOUT)
    driver.run(migrating.forecast(()))
    pipe.send("ready")
    pipe.recv()
    store.armed = True
    done = driver.run(migrating.migrate(REHEARSED, stack=place.table_name, report=lambda _: None))
    ledger[ADMITTED] = len(done)
    pipe.send("done")
    pipe.recv()
    driver.close()
