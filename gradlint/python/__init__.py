"""How Python works: source to a small tree, its names, classes and constants. Knows nothing of gradient events."""
