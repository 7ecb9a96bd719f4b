"""Watches the gradients of live training: norms by layer in true units, clips, and what looks wrong."""
