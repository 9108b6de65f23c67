"""Parts of any process: fork hooks, random pauses, a bounded cache, log lines in JSON."""
