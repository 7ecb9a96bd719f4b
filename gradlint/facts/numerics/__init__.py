"""Follows numbers to the loss: which of them are probabilities, which may be zero, and what is done to them."""
