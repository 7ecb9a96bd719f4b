"""Automatic fixes: what makes them, and what must hold before one is shown to anybody."""
