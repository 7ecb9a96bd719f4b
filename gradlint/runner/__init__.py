"""Finds the files, remembers their results and spreads the work: all input and output of a run."""
