"""Ask AWS what a stack has that costs money at any use; what it does not say is left out, with the reason."""

from dataclasses import dataclass, replace

from ..connection import Connection
from ..errors import CommandError, message_of
from . import cloudformation
from .deploy import earlier_options
from .status import alarms_of
from .template.alarms import metrics_of


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a stack; ``None`` for what is not, and ``unknown`` says why."""

    table_bytes: int | None = None
    backups: bool = False
    aggregator: bool | None = None
    alarms: int | None = None
    unknown: tuple[str, ...] = ()


def facts_of(connection: Connection) -> Facts:
    """Return what is known of a stack. It raises nothing: the costs of the tenants do not depend on it."""
    facts = Facts()
    for what, ask in (("storage", _table), ("lambda", _stack), ("alarms", _alarms)):
        try:
            facts = ask(connection, facts)
        except Exception as error:
            if (told := message_of(error)) is None:
                raise
            facts = replace(facts, unknown=(*facts.unknown, f"{what}: {' '.join(told.split())}"))
    return facts


def _table(connection: Connection, facts: Facts) -> Facts:
    client = connection.client("dynamodb")
    table = client.describe_table(TableName=connection.name)["Table"]
    return replace(facts, table_bytes=int(table.get("TableSizeBytes", 0)))


def _stack(connection: Connection, facts: Facts) -> Facts:
    client = connection.client("cloudformation")
    stack = cloudformation.find(client, connection.name)
    if stack is None:
        raise CommandError("there is no stack of this name")
    options = earlier_options(cloudformation.template_of(client, connection.name), stack)
    return replace(facts, aggregator=options.aggregator, backups=options.point_in_time_recovery)


def _alarms(connection: Connection, facts: Facts) -> Facts:
    """Count those that are there: a local stack has none, whatever its options say."""
    found = alarms_of(connection.client("cloudwatch"), connection.name)
    return replace(facts, alarms=sum(map(metrics_of, found)))
