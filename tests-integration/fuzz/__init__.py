"""Hostile input for every surface, at random: `just fuzz`.

Lives here: generators of input, the verdict on each outcome, and the campaign that runs them on all cores.
Never: a claim about one input, which is a test of its package.

``surfaces`` has a file for each surface: what input is like, and what takes it. An outcome is clean if it is a
value, or a documented error whose text is one line, in time and without much memory: ``judging``.
"""
