"""The records beside the buckets: entities, limits, usage, audit events, namespaces, versions."""
