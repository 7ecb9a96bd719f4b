"""Numbers on the way to a loss, written so that their gradients hold."""
