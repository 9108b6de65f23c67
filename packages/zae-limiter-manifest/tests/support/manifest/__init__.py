"""What the tests of the manifest and of what stands on it share."""
