from collections.abc import Iterator

import pytest

from support.cli.tables import Table, making


@pytest.fixture
def table(aws: str) -> Iterator[Table]:
    with making() as table:
        yield table
