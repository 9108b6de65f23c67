"""The records beside the buckets: entities, limits, usage, audit, namespaces, versions."""
