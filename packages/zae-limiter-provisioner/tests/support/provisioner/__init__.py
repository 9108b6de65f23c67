"""What the tests of the provisioner and of what stands on it share."""
