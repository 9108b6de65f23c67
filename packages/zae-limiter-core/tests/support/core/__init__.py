"""What the tests of core and of what stands on it share."""
