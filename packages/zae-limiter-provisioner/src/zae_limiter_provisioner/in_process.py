"""The provisioner and the planner in the process of their caller, over its store: no Lambda, the same answers."""

from zae_limiter import SyncStore
from zae_limiter_manifest import Answer, Request

from . import actions
from .table import Table


def perform(store: SyncStore, name: str, request: Request) -> Answer:
    """Carry out a request as the provisioner does; ``name`` is that of the table in messages. The store stays open."""
    return actions.perform(Table(store, name), request)


def read(store: SyncStore, name: str, request: Request) -> Answer:
    """Carry out a request that writes nothing as the planner does, and refuse any other one."""
    return actions.read(Table(store, name), request)
