"""Try a plan on the past: who would have been refused by the limits that it leaves."""
