"""Look for what is wrong with a stack, a file, or the caller's own machine, and say how to mend it."""
