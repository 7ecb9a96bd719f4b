"""What holds on every path: numbers, layers, models and settings, with branches joined."""
