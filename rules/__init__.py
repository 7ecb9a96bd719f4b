"""gradlint's rules: one rule, one class, one file, found by gradlint.registry."""
