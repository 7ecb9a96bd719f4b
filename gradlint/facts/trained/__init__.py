"""Who is trained, and on what loss: the parts of a model, and everything that a loss is made of."""
