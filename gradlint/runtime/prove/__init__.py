"""`gradlint prove`: for each rule a small script with the mistake and what the fixer makes of it, run and measured."""
