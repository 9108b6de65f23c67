"""Ask AWS what a stack has that costs money whoever uses it; what it does not say is left out, with the reason."""

from dataclasses import replace
from typing import TYPE_CHECKING

from .cost import Facts

if TYPE_CHECKING:
    from ..connection import Connection


def facts_of(connection: "Connection") -> Facts:
    """Return what is known of a stack. It raises nothing: the costs of the tenants do not depend on it."""
    facts = Facts()
    for what, ask in (("storage", _table), ("lambda and alarms", _stack)):
        try:
            facts = ask(connection, facts)
        except Exception as error:
            from ..errors import message_of

            if (told := message_of(error)) is None:
                raise
            facts = replace(facts, unknown=(*facts.unknown, f"{what}: {' '.join(told.split())}"))
    return facts


def _table(connection: "Connection", facts: Facts) -> Facts:
    client = connection.client("dynamodb")
    table = client.describe_table(TableName=connection.name)["Table"]
    return replace(facts, table_bytes=int(table.get("TableSizeBytes", 0)))


def _stack(connection: "Connection", facts: Facts) -> Facts:
    from ..errors import CommandError
    from ..stack import cloudformation
    from ..stack.deploy import earlier_options
    from ..stack.template.alarms import alarms

    client = connection.client("cloudformation")
    stack = cloudformation.find(client, connection.name)
    if stack is None:
        raise CommandError("there is no stack of this name")
    options = earlier_options(cloudformation.template_of(client, connection.name), stack)
    own = [name for name in alarms() if options.aggregator or name.startswith("Provisioner")]
    return replace(
        facts,
        aggregator=options.aggregator,
        alarms=len(own) if options.alarms else 0,
        backups=options.point_in_time_recovery,
    )
