"""gradlint finds gradient mistakes in PyTorch training code."""

__version__ = "0.1.0"
__all__ = ["__version__"]
