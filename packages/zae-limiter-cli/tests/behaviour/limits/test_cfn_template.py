"""The template of `limits cfn-template`, as cfn-lint checks it."""

from pathlib import Path

import pytest

from support.cli.limits_stack import Stack

EXAMPLE = (Path(__file__).parents[5] / "testdata" / "tenant-alpha.limits.yaml").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--take-over",)], ids=["ours", "taken over"])
def test_the_template_of_the_example_is_clean(stack: Stack, options: tuple[str, ...]) -> None:
    from cfnlint.api import lint  # slow to import, also where the test is only collected
    from cfnlint.helpers import REGIONS

    template = stack.ok("cfn-template", "-f", stack.write(EXAMPLE), *options)
    assert lint(template, regions=REGIONS) == []
    assert "cfn-lint" not in template
