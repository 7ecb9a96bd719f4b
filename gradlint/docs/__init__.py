"""Documentation made from the rules themselves: their pages, their examples, what was measured."""
