"""Turns results into what people and programs read; nothing here looks at code or decides anything."""
