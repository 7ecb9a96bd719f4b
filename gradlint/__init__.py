"""gradlint finds gradient mistakes in PyTorch training code."""

__version__ = "0.1.0"
#: what tells this package from that of another distribution, which is called `gradlint`, too
DISTRIBUTION = "torch-gradlint"
__all__ = ["DISTRIBUTION", "__version__"]
