"""Source code in, gradient events out: paths are followed, conditions decided, helpers entered."""
