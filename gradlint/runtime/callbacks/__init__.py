"""`GradientMonitor` in one line for those who do not write the loop: Hugging Face's Trainer, Lightning, Accelerate."""
