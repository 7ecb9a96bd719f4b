"""The gradient state machine: feeds a path's events through every optimizer's state and asks the rules."""
