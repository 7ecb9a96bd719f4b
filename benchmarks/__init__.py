"""Measurements of gradlint that are too slow, or need too much, for the test run."""
