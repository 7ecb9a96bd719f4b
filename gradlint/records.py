"""`dataclass` as in the standard library, but the methods of a class are written when they are first called.

Writing them takes half a millisecond for each class, and gradlint has a hundred classes of which a small file needs a
few. What is written is the same: it costs nothing afterwards, and type checkers see the standard library's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass", "field", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    _FIELDS = "__record_fields__"
    _MISSING = object()

    class _Field:
        """What is known of a field beside its name."""

        __slots__ = ("default", "factory", "init", "repr")

        def __init__(self, default, factory=_MISSING, init=True, repr=True):  # noqa: A002  # as in dataclasses
            self.default, self.factory, self.init, self.repr = default, factory, init, repr

    def field(*, default=_MISSING, default_factory=_MISSING, init=True, repr=True):  # noqa: A002  # as in dataclasses
        return _Field(default, default_factory, init, repr)

    def dataclass(cls=None, /, *, frozen=False, eq=True, order=False, slots=False):
        """Always with slots; the argument is there for who reads the class."""
        if cls is None:
            return lambda cls: _made(cls, frozen, eq, order)
        return _made(cls, frozen, eq, order)

    def replace(record, /, **changes):
        return record.__class__.__replaced__(record, **changes)

    def _made(cls, frozen, eq, order):
        """The class anew: slots cannot be added to one that exists."""
        inherited = {}
        for base in reversed(cls.__mro__[1:]):
            inherited.update(base.__dict__.get(_FIELDS, ()))
        body = dict(cls.__dict__)
        fields = dict(inherited)
        for name, annotation in cls.__annotations__.items():
            if not str(annotation).startswith("ClassVar"):
                default = body.pop(name, _MISSING)
                fields[name] = default if isinstance(default, _Field) else _Field(default)
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        body[_FIELDS] = fields
        body["__dataclass_fields__"] = _StandardFields()
        body["__slots__"] = tuple(name for name in fields if name not in inherited)
        body["__match_args__"] = tuple(name for name, about in fields.items() if about.init)
        body.setdefault("__init__", _Late(_frozen_init if frozen else _init))
        body["__replaced__"] = _Late(_replaced)
        body.setdefault("__repr__", _repr)
        if eq:
            if frozen and body.get("__hash__") is None:
                body["__hash__"] = _Late(_hash)
            else:
                body.setdefault("__hash__", None)
            body.setdefault("__eq__", _Late(_eq))
        if order:
            body |= {"__lt__": _lt, "__le__": _le, "__gt__": _gt, "__ge__": _ge}
        if frozen:
            body["__setattr__"] = body["__delattr__"] = _refuse
            body["__reduce__"] = _reduce
        return type(cls)(cls.__name__, cls.__bases__, body)

    class _Late:
        """Stands for a method until it is asked for."""

        __slots__ = ("name", "owner", "write")

        def __init__(self, write):
            self.write = write

        def __set_name__(self, owner, name):
            self.owner, self.name = owner, name

        def __get__(self, record, _):
            method = _written(self.owner, self.name, *self.write(self.owner))
            setattr(self.owner, self.name, method)
            return method if record is None else method.__get__(record)

    def _written(owner, name, signature, lines, known):
        names = {**known, "__name__": owner.__module__}
        exec(f"def {name}({signature}):\n " + "\n ".join(lines or ["pass"]), names)
        method = names[name]
        method.__qualname__ = f"{owner.__qualname__}.{name}"
        return method

    def _init(owner):
        return _any_init(owner, "self.{0} = {1}".format)

    def _frozen_init(owner):
        """Through the slots themselves, as `self.x = …` is refused."""
        signature, lines, known = _any_init(owner, "_set_{0}(self, {1})".format)
        for name in getattr(owner, _FIELDS):
            known[f"_set_{name}"] = getattr(owner, name).__set__
        return signature, lines, known

    def _any_init(owner, assign):
        known = {"_MISSING": _MISSING}
        signature, lines = ["self"], []
        for name, about in getattr(owner, _FIELDS).items():
            made = about.factory is not _MISSING
            default = f"_default_{name}"
            known[default] = about.factory if made else about.default
            if not about.init:
                value = f"{default}()" if made else default
            elif made:
                value = f"{default}() if {name} is _MISSING else {name}"
                signature.append(f"{name}=_MISSING")
            else:
                value = name
                signature.append(name if about.default is _MISSING else f"{name}={default}")
            lines.append(assign(name, value))
        return ", ".join(signature), lines, known

    def _replaced(owner):
        names = [name for name, about in getattr(owner, _FIELDS).items() if about.init]
        signature = "".join(f", {name}=_MISSING" for name in names)
        values = ", ".join(f"self.{name} if {name} is _MISSING else {name}" for name in names)
        return f"self{signature}", [f"return self.__class__({values})"], {"_MISSING": _MISSING}

    def _eq(owner):
        same = " and ".join(f"self.{name} == other.{name}" for name in getattr(owner, _FIELDS)) or "True"
        return "self, other", [f"return ({same}) if other.__class__ is self.__class__ else NotImplemented"], {}

    def _hash(owner):
        values = "".join(f"self.{name}, " for name in getattr(owner, _FIELDS))
        return "self", [f"return hash(({values}))"], {}

    def _values(record):
        return tuple([getattr(record, name) for name in getattr(record, _FIELDS)])

    def _lt(self, other):
        return _values(self) < _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _le(self, other):
        return _values(self) <= _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _gt(self, other):
        return _values(self) > _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _ge(self, other):
        return _values(self) >= _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _repr(self):
        shown = [f"{name}={getattr(self, name)!r}" for name, about in getattr(self, _FIELDS).items() if about.repr]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def _reduce(self):
        return self.__class__, _values(self)

    def _refuse(self, name, *_):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")

    class _StandardFields:
        """Makes the standard library's `fields`, `replace` and `asdict` work, for those who ask."""

        __slots__ = ()

        def __get__(self, record, owner):
            import dataclasses

            described = []
            for name, about in getattr(owner, _FIELDS).items():
                options = {"init": about.init, "repr": about.repr}
                if about.factory is not _MISSING:
                    options["default_factory"] = about.factory
                elif about.default is not _MISSING:
                    options["default"] = about.default
                described.append((name, object, dataclasses.field(**options)))
            fields = dataclasses.make_dataclass(owner.__name__, described).__dataclass_fields__
            owner.__dataclass_fields__ = fields
            return fields
