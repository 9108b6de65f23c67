from collections.abc import Iterable

import pytest

from support.cli.account import Account
from zae_limiter_cli.local.moto_data_plane import MotoDataPlane
from zae_limiter_cli.local.moto_server import application
from zae_limiter_cli.local.tables import Tables
from zae_limiter_cli.local.wsgi import Application, Environ, StartResponse, ask

HERE, THERE = "us-east-1", "eu-central-1"


class OneSpace:
    """A data plane as emulators are: it knows no regions."""

    def __init__(self, data_plane: Application) -> None:
        self._data_plane = data_plane

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        for header in ("HTTP_AUTHORIZATION", "HTTP_HOST"):
            environ[header] = environ[header].replace(THERE, HERE)
        return self._data_plane(environ, start_response)


@pytest.fixture
def moto(account: Account) -> Application:
    """moto's application; what is in it, every application of this process shares."""
    return application()


def declare(moto: Application, name: str, region: str) -> None:
    key = {"AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}], "BillingMode": "PAY_PER_REQUEST"}
    schema = [{"AttributeName": "PK", "KeyType": "HASH"}]
    ask(moto, "CreateTable", {"TableName": name, "KeySchema": schema, **key}, region=region)


def names(data_plane: Application) -> set[str]:
    return set(ask(data_plane, "ListTables", {}, region=HERE)["TableNames"]) & {
        "declared-here",
        "declared-there",
        "kept",
    }


def test_a_data_plane_without_regions_has_the_tables_of_all_of_them(moto: Application) -> None:
    data_plane = OneSpace(MotoDataPlane(moto))
    declare(data_plane, "kept", HERE)
    tables = Tables(moto, data_plane)
    declare(moto, "declared-here", HERE)
    tables.follow(HERE)
    declare(moto, "declared-there", THERE)
    tables.follow(THERE)
    assert names(data_plane) == {"declared-here", "declared-there", "kept"}
    ask(moto, "DeleteTable", {"TableName": "declared-here"}, region=HERE)
    tables.follow(HERE)
    assert names(data_plane) == {"declared-there", "kept"}
