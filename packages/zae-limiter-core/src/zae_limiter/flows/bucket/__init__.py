"""One bucket: how its requests are served together, and every write that changes it."""
