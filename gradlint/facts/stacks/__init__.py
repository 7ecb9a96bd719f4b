"""Layers that a gradient passes one after the other: models are built and run on paper."""
