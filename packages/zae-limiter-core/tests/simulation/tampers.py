"""Requests that are made wrong on their way: the faults of a library that asks for too little, or for too much.

Lives here: an operation that becomes another one. Never: which of them are to be found (mutants).
"""

from collections.abc import Mapping
from typing import Any

from zae_limiter.operations.values import NOTHING, Operation, Transact, Update


def _tokens(amounts: Mapping[str, Any]) -> list[str]:
    return [name for name in amounts if name.endswith("_tk")]


def no_upper_bound(operation: Operation[Any]) -> Operation[Any]:
    """An ADD does not ask whether the bucket is below its ceiling."""
    if isinstance(operation, Update) and not operation.when.absent:
        return operation._replace(when=operation.when._replace(at_most=NOTHING))
    return operation


def no_lower_bound(operation: Operation[Any]) -> Operation[Any]:
    """An ADD does not ask whether the tokens are there."""
    if isinstance(operation, Update) and _tokens(operation.add):
        kept = {name: least for name, least in operation.when.at_least.items() if name not in operation.add}
        return operation._replace(when=operation.when._replace(at_least=kept))
    return operation


def no_anchor(operation: Operation[Any]) -> Operation[Any]:
    """A write does not ask whether the shape is the one it was made for."""
    if isinstance(operation, Update):
        return operation._replace(when=operation.when._replace(equals=NOTHING))
    return operation


def wrong_anchor(operation: Operation[Any]) -> Operation[Any]:
    """A reshape anchors the balances at another instant than the one they are meant for."""
    if isinstance(operation, Update) and "rf" in operation.set:
        early = operation.set["rf"] - 200
        if early > operation.when.equals.get("rf", early):
            return operation._replace(set={**operation.set, "rf": early})
    return operation


def give_back_to_nobody(operation: Operation[Any]) -> Operation[Any]:
    """A give-back does not ask whether the bucket is still there."""
    if isinstance(operation, Update) and operation.when.exists:
        others = {name: value for name, value in operation.when.equals.items() if name != "shard_count"}
        return operation._replace(when=operation.when._replace(exists=(), equals=others))
    return operation


def overflow_credited(operation: Operation[Any]) -> Operation[Any]:
    """A SET credits what the ceiling cuts off."""
    if isinstance(operation, Update) and _tokens(operation.set):
        paid = {name: operation.set[name] + 1 for name in _tokens(operation.set)}
        return operation._replace(set={**operation.set, **paid})
    return operation


def limit_readded_full(operation: Operation[Any]) -> Operation[Any]:
    """A reshape takes the limits out of the item that it does not have, so that they come back full."""
    if isinstance(operation, Update) and "cv" in operation.set:
        ruled = {name for name in operation.set if name.endswith("_cp")}
        gone = [name for name in _tokens(operation.add) if ruled and name.replace("_tk", "_cp") not in ruled]
        add = {name: amount for name, amount in operation.add.items() if name not in gone}
        return operation._replace(add=add, remove=(*operation.remove, *gone))
    return operation


def dropped_unasked(operation: Operation[Any]) -> Operation[Any]:
    """A limit leaves a bucket, whatever it owes by now."""
    if isinstance(operation, Update):
        kept = {name: least for name, least in operation.when.at_least.items() if name not in operation.remove}
        return operation._replace(when=operation.when._replace(at_least=kept))
    return operation


def split_over_a_shard(operation: Operation[Any]) -> Operation[Any]:
    """A split does not ask whether the shard that it splits is the one that was seen."""
    update = operation.writes[0] if isinstance(operation, Transact) else None
    if isinstance(operation, Transact) and isinstance(update, Update) and "shard_count" in update.set:
        unasked = update._replace(when=update.when._replace(equals=NOTHING))
        return Transact((unasked, *operation.writes[1:]), operation.request_token)
    return operation
