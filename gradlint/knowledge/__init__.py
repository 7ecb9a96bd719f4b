"""What is known of PyTorch and of the frameworks on top of it: data, no logic."""
