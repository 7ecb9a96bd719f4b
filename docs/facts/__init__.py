"""Small experiments on torch, one for each rule: what the mistake does, and what the right code does.

`python -m docs.facts` runs all of them and writes `gradlint/docs/facts.json`, which the rules' pages show;
`python -m docs.facts GL101` runs one and prints it; `python -m docs.facts --check` compares a fresh run with the file.
"""
