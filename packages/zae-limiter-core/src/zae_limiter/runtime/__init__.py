"""What any process needs: fork hooks, a bounded cache, log lines in JSON."""
