"""Time as the store counts it: the system's clock, corrected by the dates of answers."""
