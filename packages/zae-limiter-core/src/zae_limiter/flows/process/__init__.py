"""The state of one namespace in one process: settings, config cache, and cached buckets with their queues."""
