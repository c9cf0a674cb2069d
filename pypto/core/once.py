"""An attribute that is computed when it is first asked for, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    """As `functools.cached_property`, which in Python 3.11 holds a lock, one for all objects, while it computes.

    A child of a fork at that time would wait for the lock for ever, and one thread's compilation would hold up all others. Here two
    threads may compute the same value; both get the first one that is ready. Frozen dataclasses may have such attributes.

    >>> class Point:
    ...     @once
    ...     def norm(self) -> float:
    ...         print("computed")
    ...         return 5.0
    >>> p = Point()
    >>> p.norm, p.norm
    computed
    (5.0, 5.0)
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        return vars(instance).setdefault(self.name, self.compute(instance))
