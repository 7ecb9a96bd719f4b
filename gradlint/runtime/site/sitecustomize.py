"""Python runs this at its start, in the processes that a recorded script starts: they are to be recorded as well.

Any Python may find it, so it keeps to what all of them understand, and never lets anything of ours be in the way.
"""

import os
import sys
from importlib.machinery import PathFinder as _PathFinder
from importlib.util import module_from_spec as _module_from_spec
from importlib.util import spec_from_file_location as _spec_from_file_location

_here = os.path.dirname(os.path.abspath(__file__))
_gradlint = os.path.join(os.path.dirname(os.path.dirname(_here)), "__init__.py")
_this_python = "{} {}".format(sys.prefix, sys.hexversion)  # noqa: UP032 - as in launch/orders.py, for old ones too

sys.path[:] = [_folder for _folder in sys.path if os.path.abspath(_folder) != _here]

if os.environ.get("GRADLINT_PYTHON") == _this_python:
    try:
        _spec = _spec_from_file_location("gradlint", _gradlint)
        if _spec is not None and _spec.loader is not None:
            sys.modules["gradlint"] = _module_from_spec(_spec)
            _spec.loader.exec_module(sys.modules["gradlint"])
            from gradlint.runtime.launch import script as _script

            _script.watch()
    except Exception:  # nothing that goes wrong here may become a problem of the user's process
        pass

# The environment may have a file of this name itself: it has to run, and to be the module that is found later.
_spec = _PathFinder.find_spec("sitecustomize")
if _spec is not None and _spec.loader is not None:
    _theirs = _module_from_spec(_spec)
    sys.modules["sitecustomize"] = _theirs
    _spec.loader.exec_module(_theirs)
