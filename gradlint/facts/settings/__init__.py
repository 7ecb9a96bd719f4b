"""What frameworks are told in place of a call: limits for clipping, sizes of windows."""
