"""Rewrites source through libcst's tree: statements are moved, inserted and changed, all else stays byte for byte."""
