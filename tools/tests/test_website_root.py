from website.root import page_of_docs, page_of_root, titled


def test_links_of_a_root_page_lead_to_pages_or_to_files_at_the_host() -> None:
    page = "[a](docs/core.md#x) [b](packages/one/README.md) [c](#here) [d](https://example.com)"
    expected = "[a](core.md#x) [b](https://host/blob/main/packages/one/README.md) [c](#here) [d](https://example.com)"
    assert page_of_root(page, "https://host") == expected


def test_links_of_a_page_that_lead_out_of_the_docs_lead_to_files_at_the_host() -> None:
    page = "[a](../core.md#x) [b](../../packages/one/README.md#y) [c](#here) [d](code.md) [e](../../CONTRIBUTING.md)"
    expected = (
        "[a](../core.md#x) [b](https://host/blob/main/packages/one/README.md#y) [c](#here) [d](code.md) "
        "[e](../contributing.md)"
    )
    assert page_of_docs(page, "docs/contribute", "https://host") == expected


def test_a_block_has_the_name_of_its_file_as_title() -> None:
    page = '```yaml a/b.yaml\nx\n```\n    ```yaml mistakes\n    x\n    ```\n```py title="c.py"\n```\n```sh\n```\n'
    expected = page.replace("yaml a/b.yaml", 'yaml title="a/b.yaml"').replace("yaml mistakes", "yaml")
    assert titled(page) == expected
