"""One bucket: its queue's runs, and every write that changes it."""
