"""One self-contained HTML page for what a run or a monitor has seen. Needs jinja2, never torch."""
