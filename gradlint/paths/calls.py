"""Dispatches calls on what is called: functions of the file, PyTorch's and the frameworks' API, the unknown."""

from __future__ import annotations

from gradlint.paths import values as v
from gradlint.paths.gradients import Arguments
from gradlint.paths.methods import Methods
from gradlint.python import syntax as s


class Calls(Methods):
    """The way in for every call."""

    def call(self, node: s.Call) -> v.Value:
        self.run.spend()
        func = node.func
        if isinstance(func, s.Attr):
            if isinstance(func.base, s.Call) and s.render(func.base.func) == "super":
                return self.super_call(func.name, node)
            base = self.ev(func.base)
            a = self.arguments(node)
            result = self.method(base, func, a, node)
            if result is not None:
                return result
            value = self.attribute(base, func.name, func)
            return self.call_value(value, a, node)
        value = self.ev(func)
        return self.call_value(value, self.arguments(node), node)

    def call_value(self, value: v.Value, a: Arguments, node: s.Call) -> v.Value:
        match value:
            case v.Function():
                return self.invoke(value, a.args, a.kwargs, node)
            case v.Dotted():
                return self.call_dotted(value.key, a, node)
            case v.ClassValue():
                return self.instantiate(value, a, node)
            case v.Partial():
                joined = Arguments([*value.args, *a.args], {**value.kwargs, **a.kwargs})
                return self.call_value(value.func, joined, node)
            case v.Bound():
                func = s.Attr(node.func.node, s.Name(node.func.node, value.base.key), value.name)
                return self.method(value.base, func, a, node) or self.unknown_call(value.key, a, node)
            case v.Instance():
                return self._call_instance(value, a, node)
            case v.Model():
                return self.forward(value, a, node)
            case v.Managing():
                return self.forward(value.model or value, a, node)
            case v.Context():
                return value
            case v.Scaler():
                return self.wrapped_scaler(a, node)
            case v.Unknown():
                return self.call_by_name(value, a, node)
            case _:
                return self.unknown_call(value.key, a, node)

    def _call_instance(self, value: v.Instance, a: Arguments, node: s.Call) -> v.Value:
        method = self.find_in_class(value.cls, "__call__")
        if isinstance(method, v.Function):
            bound = v.Function(f"{value.key}()", method.node, method.env, value, method.cls)
            return self.invoke(bound, a.args, a.kwargs, node)
        if value.module:
            return self.module_forward(value, a, node)
        return self.unknown_call(value.key, a, node)
