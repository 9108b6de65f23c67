"""What the tests of the aggregator and of what stands on it share."""
