"""Scripts that measure what the README promises about speed and cost.

Lives here: one module for each claim, whose ``measure`` answers rows. Never: a test, or anything that the packages use.
"""
