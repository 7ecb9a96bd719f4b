"""Documentation made from the rules themselves: their pages, the README's table, the picture of the output."""
