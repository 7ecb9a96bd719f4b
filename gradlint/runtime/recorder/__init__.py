"""Records a training run: patches torch before the user's code runs, and writes down what happens to gradients."""
