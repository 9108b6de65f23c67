"""What the tests of the CLI, and of the whole, share."""
