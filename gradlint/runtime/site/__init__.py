"""A folder for PYTHONPATH: its `sitecustomize` has the Python processes that a script starts recorded as well."""
