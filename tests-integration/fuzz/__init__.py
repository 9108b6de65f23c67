"""Hostile input for every surface, at random: `just fuzz`.

Lives here: generators of input, the verdict on each outcome, and the campaign that runs them on all cores.
Never: a claim about one input, which is a test of its package.

``surfaces`` has a file for each surface: it says what input is like, and feeds one. ``judging`` says whether the outcome
is clean: a value, or a documented error whose text is one line, in time and without much memory.
"""
