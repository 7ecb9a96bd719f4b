"""What a script needs to run as its author ran it, while it is recorded. Without torch; `run` is the way in."""
