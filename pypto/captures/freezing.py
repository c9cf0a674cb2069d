"""Turn any Python value into a hashable key: by value where the value can be read, by identity where it cannot."""

from __future__ import annotations

import array
import dataclasses
import enum
import functools
import io
import os
import struct
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from pypto.errors import BodyError
from pypto.source import PACKAGE

Key = Hashable
Labelled = tuple[tuple[Hashable, Key], ...]

ATOMS = frozenset({int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented)})
"""Types whose values never change. A key holds the type too: 1, 1.0 and True are different programs."""


class _Unset:
    def __repr__(self) -> str:
        return "unset"


UNSET = _Unset()
"""What a chain gives that leads nowhere; the NameError or AttributeError comes when the kernel is traced."""


class Same:
    """Equal to itself alone. Holds the object, so that no other object can ever have its identity."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class Parts(NamedTuple):
    """The key of something made of other things: what it is, what identifies it, and its labelled parts."""

    kind: str
    head: Hashable
    parts: Labelled = ()


_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    complex: complex.__complex__,
    str: str.__str__,
    bytes: bytes.__bytes__,
}
"""How to get at the plain value inside an instance of a subclass, whatever the subclass overrides."""

_LIBRARY = tuple(
    os.path.join(path, "") for path in {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} if path
)
_GENERATED = ("__annotations__", "__dict__", "__doc__", "__module__", "__weakref__", "__match_args__", "__slots__", "__hash__")


@functools.cache
def is_library_file(file: str) -> bool:
    """Whether `file` is part of Python, of an installed package, or of pypto: code that does not change under a kernel."""
    if file.startswith("<"):
        return file.startswith("<frozen ")
    path = os.path.abspath(file)
    installed = f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path
    return installed or path.startswith((PACKAGE, *_LIBRARY))


def is_library_class(cls: type) -> bool:
    if not cls.__flags__ & (1 << 9):  # not a heap type: written in C
        return True
    if cls.__module__.partition(".")[0] in sys.stdlib_module_names and cls.__module__ != "__main__":
        return True
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return file is not None and is_library_file(file)


def is_pypto(value: object) -> bool:
    """Whether `value` is one of this library's modules."""
    return isinstance(value, types.ModuleType) and (value.__name__ == "pypto" or value.__name__.startswith("pypto."))


def only_identity(value: object) -> bool:
    """Whether the key of `value` can never change while `value` is the same object."""
    if isinstance(value, types.FunctionType):
        return is_library_file(value.__code__.co_filename) and not value.__dict__
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    if isinstance(value, type):
        return issubclass(value, enum.Enum) or is_library_class(value)
    return value is UNSET or isinstance(value, (types.ModuleType, enum.Enum))


class Freezer:
    """Makes the keys of one snapshot.

    Args:
      arrays: identity -> (array, generation) of arrays frozen so far; kept between snapshots.
      reads: what a function written by the user reads from outside.
    """

    def __init__(self, arrays: dict[int, tuple[Any, int]], reads: Callable[[types.FunctionType, Freezer], Labelled]) -> None:
        self._arrays = arrays
        self._reads = reads
        self._done: dict[int, tuple[object, Key]] = {}  # holds the object: a temporary's id must not be reused meanwhile
        self._active: dict[int, int] = {}
        numpy: Any = sys.modules.get("numpy")  # a value of numpy's can only exist if numpy was imported
        self._array: type | tuple[()] = numpy.ndarray if numpy else ()
        self._scalar: type | tuple[()] = numpy.generic if numpy else ()
        self._dtype: type | tuple[()] = numpy.dtype if numpy else ()

    def key(self, value: object) -> Key:
        """The key of `value`."""
        kind = type(value)
        if kind in ATOMS:
            if kind is float:
                return (kind, struct.pack("<d", value))  # tells 0.0 from -0.0, and finds a NaN equal to itself
            if kind is complex:
                return (kind, struct.pack("<2d", value.real, value.imag))  # pyright: ignore[reportAttributeAccessIssue]
            return (kind, value)
        if only_identity(value):
            return Same(value)
        known = self._done.get(id(value))
        if known is not None:
            return known[1]
        if id(value) in self._active:
            return ("cycle", self._active[id(value)])
        self._active[id(value)] = len(self._active)
        try:
            key = self._compound(value)
        finally:
            del self._active[id(value)]
        self._done[id(value)] = (value, key)
        return key

    def _compound(self, value: Any) -> Key:
        kind = type(value)
        guard = getattr(kind, "__pypto_guard__", None)
        if guard is not None:
            return Parts("kernel", Same(value), (("guard", guard(value)),))
        base = next((base for base in kind.__mro__ if base in _PLAIN), None)
        if base is not None:  # a subclass of int, str, ...: the plain value inside, and the attributes around it
            plain = _PLAIN[base](value)
            return Parts("value", Same(kind), (("value", self.key(plain)), *self._labelled(_variables(value).items())))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, (list, tuple, deque)):
            labels = getattr(kind, "_fields", None) or range(len(value))
            return Parts(kind.__name__, Same(kind), self._labelled(zip(labels, value)))
        if isinstance(value, (dict, types.MappingProxyType)):
            pairs = tuple((self.key(name), self.key(item)) for name, item in value.items())
            return Parts(kind.__name__, Same(kind), pairs)
        if isinstance(value, (set, frozenset)):
            return Parts(kind.__name__, (Same(kind), frozenset(map(self.key, value))))
        if isinstance(value, self._array):
            return Parts("array", (Same(value), self._freeze(value)))
        if isinstance(value, self._scalar):
            return Parts("scalar", (Same(kind), value.dtype.str, value.tobytes()))
        if isinstance(value, self._dtype):
            return Parts("dtype", (Same(kind), value))
        if isinstance(value, (range, slice)):
            return Parts(kind.__name__, "", self._labelled((name, getattr(value, name)) for name in ("start", "stop", "step")))
        if isinstance(value, bytearray):
            return Parts("bytearray", bytes(value))
        if isinstance(value, array.array):
            return Parts("array.array", (Same(kind), value.typecode, value.tobytes()))
        if isinstance(value, memoryview):
            return Parts(kind.__name__, (Same(kind), value.format, value.shape, value.tobytes()))
        return self._object(value, kind)

    def _object(self, value: Any, kind: type) -> Key:
        wrapped = getattr(value, "__dict__", {}).get("__wrapped__")
        if wrapped is not None:
            return Parts("wrapper", Same(value), (("__wrapped__", self.key(wrapped)),))
        if isinstance(value, types.MethodType):
            return Parts("method", "", (("function", self.key(value.__func__)), ("self", self.key(value.__self__))))
        if isinstance(value, (types.BuiltinMethodType, types.MethodWrapperType)):
            return Parts("method", value.__name__, (("self", self.key(value.__self__)),))
        if isinstance(value, functools.partial):
            return Parts(
                "partial", Same(kind), self._labelled({"func": value.func, "args": value.args, "keywords": value.keywords}.items())
            )
        if isinstance(value, (staticmethod, classmethod)):
            return Parts(kind.__name__, "", (("function", self.key(value.__func__)),))
        if isinstance(value, property):
            return Parts("property", "", self._labelled({"get": value.fget, "set": value.fset, "delete": value.fdel}.items()))
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, Iterator) and not isinstance(value, io.IOBase):
            message = f"the kernel reads the {kind.__name__} {value!r}, which changes by being read"
            raise BodyError("PL113", message, fix="make a list or tuple of its values outside the kernel, and read that")
        methods: Labelled = () if is_library_class(kind) else (("class", self.key(kind)),)
        if dataclasses.is_dataclass(value):
            fields = [(item.name, getattr(value, item.name, UNSET)) for item in dataclasses.fields(value)]
            return Parts("object", Same(kind), self._labelled(fields) + methods)
        if isinstance(value, types.SimpleNamespace):
            return Parts("object", Same(kind), self._labelled(vars(value).items()))
        if not methods:
            return Same(value)  # something of an installed library: what it holds cannot be told from what it caches
        # A base class written in C may hold more than can be seen, so this object also stands for itself.
        return Parts("object", (Same(kind), Same(value)), self._labelled(_variables(value).items()) + methods)

    def _function(self, fn: types.FunctionType) -> Key:
        if is_library_file(fn.__code__.co_filename):
            wrapped = fn.__dict__.get("__wrapped__")
            return Same(fn) if wrapped is None else Parts("wrapper", Same(fn), (("__wrapped__", self.key(wrapped)),))
        given = {"defaults": fn.__defaults__, "keyword defaults": fn.__kwdefaults__}
        own = self._labelled((label, value) for label, value in given.items() if value)
        return Parts("function", Same(fn.__code__), own + self._reads(fn, self))

    def _class(self, cls: type) -> Key:
        """A class written by the user: what its methods read can change, and so can its attributes."""
        own = {name: value for base in reversed(cls.__mro__) if not is_library_class(base) for name, value in vars(base).items()}
        kept = ((name, value) for name, value in own.items() if not _is_generated(name, value))
        return Parts("class", Same(cls), self._labelled(kept))

    def _labelled(self, items: Any) -> Labelled:
        return tuple((label, self.key(value)) for label, value in items)

    def _freeze(self, array: Any) -> int:
        """Make `array` and what it is a view of read-only. The generation grows if someone made it writable again."""
        known = self._arrays.get(id(array))
        generation = 0 if known is None else known[1]
        if array.flags.writeable:
            generation += known is not None
            owner = array
            while isinstance(owner, self._array):
                owner.flags.writeable = False  # pyright: ignore[reportAttributeAccessIssue]
                owner = owner.base  # pyright: ignore[reportAttributeAccessIssue]
        self._arrays[id(array)] = (array, generation)
        return generation


def _variables(value: object) -> dict[str, Any]:
    """The attributes stored in `value` itself, in `__dict__` or in slots."""
    found = dict(getattr(value, "__dict__", ()))
    for cls in type(value).__mro__:
        for name, slot in vars(cls).items():
            if isinstance(slot, types.MemberDescriptorType) and not is_library_class(cls):
                found.setdefault(name, getattr(value, name, UNSET))
    return found


def _is_generated(name: str, value: object) -> bool:
    """Class attributes made by Python or by @dataclass from what is in the key already."""
    if isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        return True
    dunder = name.startswith("__") and name.endswith("__")
    if isinstance(value, types.FunctionType):
        return dunder and value.__code__.co_filename == "<string>"
    return name in _GENERATED or name == "_abc_impl" or (dunder and not callable(value))


# Differences, for people.


def difference(label: str, before: Key, after: Key) -> str:
    """One sentence: which part of `label` differs, and both values."""
    if isinstance(before, Parts) and isinstance(after, Parts) and before[:2] == after[:2]:
        names = [name for name, _ in before.parts]
        if names == [name for name, _ in after.parts]:
            name, first, second = next((n, b, a) for (n, b), (_, a) in zip(before.parts, after.parts) if b != a)
            return difference(_inside(label, before.kind, name), first, second)
    first, second = show(before), show(after)
    if first == second:
        return f"`{label}` was replaced by another {first}"
    return f"`{label}` changed from {first} to {second}"


def _inside(label: str, kind: str, name: Hashable) -> str:
    if kind == "function":
        return f"{name} (read by {label})"
    if kind in ("object", "class"):
        return f"{label}.{name}"
    if kind in ("value", "method", "wrapper", "kernel", "staticmethod", "classmethod"):
        return label
    return f"{label}[{show(name)}]" if isinstance(name, tuple) else f"{label}[{name!r}]"


def show(key: Key) -> str:
    """A key as the value it was made from, shortened."""
    if isinstance(key, Same):
        text = _name(key.value)
    elif isinstance(key, Parts):
        text = _show_parts(key)
    elif isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], type):
        kind, value = key
        text = repr(kind(*struct.unpack("<" + "d" * (len(value) // 8), value)) if kind in (float, complex) else value)
    else:
        text = repr(key)
    return text if len(text) <= 80 else text[:77] + "..."


def _show_parts(key: Parts) -> str:
    if key.kind == "array" and isinstance(key.head, tuple):
        array = key.head[0].value
        return f"array {array.dtype}{list(array.shape)}"
    if key.kind in ("list", "tuple", "deque"):
        return f"{key.kind}({', '.join(show(part) for _, part in key.parts[:8])}{', ...' if len(key.parts) > 8 else ''})"
    head = key.head[0] if isinstance(key.head, tuple) and key.head else key.head
    if isinstance(head, Same):
        inside = ", ".join(f"{show(n) if isinstance(n, tuple) else n}={show(part)}" for n, part in key.parts[:4] if n != "class")
        return f"{_name(head.value)}({inside})"
    return f"{key.kind} {key.head!r}" if key.head else key.kind


def _name(value: object) -> str:
    code = getattr(value, "__code__", value)
    if isinstance(code, types.CodeType):
        return f"{code.co_name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value) if isinstance(value, (_Unset, enum.Enum)) else type(value).__name__
