"""Tests of the rules themselves: their fixtures and the examples on their pages."""
