"""What the user asked for: settings, where they come from, and how wrong ones are reported."""

from gradlint.config.reading import ConfigError
from gradlint.config.selectors import Layer
from gradlint.config.settings import Settings

__all__ = ["ConfigError", "Layer", "Settings"]
