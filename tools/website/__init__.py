"""The documentation's site: pages from docs, the reference from the code, Markdown for machines."""
