import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SKIPPED = re.compile(r"^  - (CKV\w+)(?:  # \S.+)?$", re.MULTILINE)
CONFIG = (ROOT / ".checkov.yaml").read_text(encoding="utf-8")


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("templates", ROOT / "tools" / "templates.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


templates = _load()


def test_what_checkov_sees_has_all_that_production_asks_for_and_all_that_protects_more() -> None:
    production, hardened, provisioned = (each["Resources"] for each in templates.templates().values())
    for resources in (production, hardened, provisioned):
        table = resources["Table"]["Properties"]
        assert table["DeletionProtectionEnabled"] is True
        assert table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
        assert {"ArchiveBucket", "DeadLettersAlarm", "FullPolicy"} <= set(resources)
    assert "ObjectLockConfiguration" in hardened["ArchiveBucket"]["Properties"]
    assert hardened["Table"]["Properties"]["SSESpecification"]["KMSMasterKeyId"] == templates.KEY
    assert provisioned["Table"]["Properties"]["BillingMode"] == "PROVISIONED"


def test_every_check_that_is_left_out_has_a_reason() -> None:
    left_out = [line for line in CONFIG.splitlines() if line.startswith("  - ")]
    assert len(left_out) == len(SKIPPED.findall(CONFIG)) > 0
    for before, line in zip(CONFIG.splitlines(), CONFIG.splitlines()[1:], strict=False):
        if line.startswith("  - "):
            assert "  # " in before + line
