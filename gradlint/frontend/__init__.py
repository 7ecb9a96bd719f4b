"""Source code in, gradient events out."""
