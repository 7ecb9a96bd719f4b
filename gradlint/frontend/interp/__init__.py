"""Runs the program abstractly: loops a few turns, conditions decided, helpers followed, events written down."""

from gradlint.frontend.interp.statements import Interpreter

__all__ = ["Interpreter"]
