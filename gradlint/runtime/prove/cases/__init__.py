"""Small training scripts, each with one mistake; they are run by path and read by the linter, never imported."""
