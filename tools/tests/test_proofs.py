import importlib.util
from pathlib import Path
from types import ModuleType


def loaded() -> ModuleType:
    """The script, which is in no package."""
    spec = importlib.util.spec_from_file_location("proofs", Path(__file__).parents[1] / "proofs.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


proofs = loaded()


def test_a_page_names_its_tests_once_each_with_their_packages() -> None:
    page = (
        "| a | `core/tests/unit/test_b.py`, `tests-integration/tests/test_c.py` |\n`core/tests/unit/test_b.py` `x.py`"
    )
    core, whole = Path("packages/zae-limiter-core"), Path("tests-integration/tests")
    assert proofs.named(page) == [core / "tests/unit/test_b.py", whole / "test_c.py"]
    assert proofs.sessions(proofs.named(page)) == {
        core: [core / "tests/unit/test_b.py"],
        whole: [whole / "test_c.py"],
    }


def test_every_promise_of_the_page_has_a_test_that_is_there() -> None:
    tables = proofs.PAGE.read_text("utf-8").split("| promise | held by |\n|---|---|\n")[1:]
    rows = [row for table in tables for row in table.partition("\n\n")[0].splitlines()]
    assert len(rows) > 70
    for row in rows:
        tests = proofs.named(row)
        assert tests, row
        assert [test for test in tests if not (proofs.ROOT / test).exists()] == []
