"""The Lambda that applies manifests of limits to a table."""
