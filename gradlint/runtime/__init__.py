"""The part that runs code: records training, judges it with the rules' own machine, proves fixes, watches gradients.

The only part of gradlint that imports torch, and only when it is used.
"""
