"""What lives here: the proof that the tables of costs in the docs are what is counted, and that real tables agree.
What never does: the calls (cost_cases), how they are counted (benchmarks.costs).
"""

from contextlib import closing, nullcontext
from typing import Any

import pytest
from benchmarks.costs import measure
from benchmarks.report import write_into

from support.integration.call_log import public_methods
from support.integration.cost_cases import FREE, SECTIONS, Case, counted, counted_in_memory
from support.integration.harness import Harness
from support.integration.names import own_name
from support.integration.stacks import drop
from support.integration.targets import Target, apart
from zae_limiter.engines.meter import Meter

MANY = "1,000"
PARTS = [
    pytest.param(section, many, marks=pytest.mark.long if many else [])
    for section, cases in SECTIONS.items()
    for many in sorted({MANY in case.when for case in cases})
]
CASES = [pytest.param(case, id=f"{case.method} {case.when}".strip()) for cases in SECTIONS.values() for case in cases]


def test_the_tables_in_the_docs_are_what_is_counted() -> None:
    rows = measure()
    for block in {row.block for row in rows}:
        table = [row for row in rows if row.block == block]
        page = table[0].PAGE.read_text()
        assert write_into(page, block, table) == page, "run `just bench costs`"


def test_every_public_method_is_in_a_table_or_free() -> None:
    told = {case.method.removeprefix("lease.") for cases in SECTIONS.values() for case in cases}
    untold = {method for method in public_methods() - FREE if method.split(".")[1] not in told}
    assert untold == set()


@pytest.mark.long(keep=40)
@pytest.mark.parametrize("case", CASES)
async def test_both_variants_cost_the_same(case: Case) -> None:
    assert await counted_in_memory(case, "sync") == await counted_in_memory(case, "async")


@pytest.mark.long(keep=3)
@pytest.mark.needs("endpoint", "capacity")
@pytest.mark.parametrize(("section", "many"), PARTS)
async def test_a_real_table_is_asked_the_same_and_counts_the_same(
    shared_target: Target, section: str, *, many: bool
) -> None:
    thousands = shared_target.quirks.thousands
    cases = [case for case in SECTIONS[section] if (MANY in case.when) == many]
    with apart(shared_target) if many and thousands else nullcontext(shared_target) as target:
        for case in cases if thousands or not many else ():  # other targets show them
            there, here = await _counted(case, target), await counted_in_memory(case)
            assert told(case, there, target) == told(case, here, target)


async def _counted(case: Case, target: Target) -> Meter:
    harness = Harness(target, own_name(), "async")
    meter = await counted(case, harness)
    await harness.close()
    with closing(target.client("dynamodb")) as client:
        drop(client, harness.table_name)
    return meter


def told(case: Case, meter: Meter, target: Target) -> dict[str, Any]:
    """The case, and what the target counts as AWS does."""
    counts: dict[str, Any] = {"method": case.method, "when": case.when, "requests": meter.requests}
    if not target.quirks.counts_transactions:
        return counts
    counts |= {"reads": meter.read_units, "writes": meter.write_units}
    transacts = "TransactWriteItems" in meter.requests  # of which an emulator charges the indexes once
    return counts if transacts else counts | {"on indexes": meter.index_units}
