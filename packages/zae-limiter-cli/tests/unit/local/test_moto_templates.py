from typing import Any

import moto.cloudformation.parsing as moto_parsing
import pytest

from zae_limiter_cli.local.moto_templates import mended
from zae_limiter_cli.stack.template.language import NO_VALUE


def test_motos_templates_leave_items_out_of_lists_however_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moto_parsing, "clean_json", mended(moto_parsing.clean_json))
    part = {"Statement": [{"Action": ["a", NO_VALUE]}, NO_VALUE], "Sid": NO_VALUE}
    resources: Any = {"AWS::NoValue": None}
    assert moto_parsing.clean_json(part, resources) == {"Statement": [{"Action": ["a"]}]}
