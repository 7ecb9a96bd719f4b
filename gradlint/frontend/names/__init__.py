"""What a name stands for: which import, which one value, or all the values that it may have."""
