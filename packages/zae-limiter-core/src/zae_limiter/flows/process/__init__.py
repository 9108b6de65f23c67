"""The state of one namespace in one process: settings, config cache, and cached shards with their queues."""
