"""`ChipWorker`: one simulated device. It owns memory and registrations, and runs one program at a time."""

from __future__ import annotations

import ctypes
import itertools
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from pypto.core.allocation import zeros
from pypto.core.array import to_numpy
from pypto.dtypes import UINT8, dtype_of
from pypto.errors import CallError
from pypto.runtime.config import RunConfig, chosen
from pypto.runtime.tensors import DeviceTensor, written_in_place

if TYPE_CHECKING:
    from pypto.runtime.compiled import CompiledProgram

_active: ContextVar[tuple[ChipWorker, ...]] = ContextVar("pypto_workers", default=())


class ChipWorker:
    """A device of one platform. Use it as a context manager, or call `close`.

    Any thread may use it; programs run one after the other, as on a device. `close` waits for the one that runs.

    Args:
      config: platform and device_id, and how programs run; or these two on their own.

    >>> with ChipWorker(platform="a2a3sim") as w:
    ...     t = w.alloc_tensor((2, 2), "FP32", init=np.ones((2, 2), np.float32))
    ...     float(t.numpy().sum())
    4.0
    """

    level = 2

    def __init__(self, config: RunConfig | None = None, *, platform: str | None = None, device_id: int | None = None) -> None:
        self.config = chosen(config, platform=platform, device_id=device_id)
        self.name = f"{self.config.platform}:{self.config.device_id}"
        self._lock = threading.RLock()
        self._tensors: dict[int, DeviceTensor] = {}
        self._raw: dict[int, np.ndarray] = {}
        self._handles: weakref.WeakSet[RegistrationHandle] = weakref.WeakSet()
        self._cids = itertools.count()
        self._closed = False
        self._entered = 0

    def __repr__(self) -> str:
        return f"<ChipWorker {self.name}{' (closed)' if self._closed else ''}>"

    @property
    def platform(self) -> str:
        """What it runs programs of."""
        return self.config.platform

    @property
    def device_id(self) -> int:
        """Its number."""
        return self.config.device_id

    @property
    def initialized(self) -> bool:
        """Whether it takes work."""
        return not self._closed

    @staticmethod
    def current() -> ChipWorker | None:
        """The innermost worker whose `with` block we are in; `compiled(...)` runs on it."""
        return _active.get()[-1] if _active.get() else None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nothing else of this worker runs inside this `with` block.

        Errors:
          PL609 if it is closed.
        """
        with self._lock:
            if self._closed:
                raise CallError("PL609", f"{self!r} takes no work any more", fix="use a worker inside its `with` block")
            yield

    # ---- programs ----

    def register(self, compiled: CompiledProgram) -> RegistrationHandle:
        """Make a program ready to run, so that what is wrong shows here; the handle runs it.

        Errors:
          PL610 for a program of another platform, PL609 if the worker is closed.
        """
        with self.exclusive():
            self._check(compiled)
            compiled.load()
            handle = RegistrationHandle(self, compiled, next(self._cids))
            self._handles.add(handle)
            return handle

    def forget(self, handle: RegistrationHandle) -> None:
        """End a registration; a second time does nothing."""
        with self._lock:
            self._handles.discard(handle)
            handle.mark_closed()

    def run(self, compiled: CompiledProgram, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Any:
        """Run a program once; device tensors of this worker are used where they are.

        Errors:
          PL610 for a program of another platform, PL609 for a closed worker, a freed tensor, or one of another worker; whatever
          the program raises.
        """
        return self.timed(compiled, args, kwargs, config)[0]

    def timed(self, compiled: CompiledProgram, args: Sequence[Any], kwargs: dict[str, Any], config: RunConfig | None = None) -> Any:
        """As `run`; the outputs, and where the time went."""
        with self.exclusive():
            self._check(compiled)
            compiled.refuse_other_platform(config)
            for value in (*args, *kwargs.values()):
                if isinstance(value, DeviceTensor) and value.worker is not self:
                    raise CallError(
                        "PL609", f"{value!r} is not this worker's, {self.name}", fix="copy it: t.numpy(), then alloc_tensor(init=)"
                    )
            if (config or self.config).codegen_only:
                raise CallError("PL607", "codegen_only=True cannot be honoured by a dispatch, which runs", fix="kernel.compile(...) alone")
            with (config or self.config).in_force() as options:
                return compiled.entry.run(tuple(args), kwargs, options.watch(lambda: compiled.output_dir))

    def _check(self, compiled: CompiledProgram) -> None:
        found = getattr(compiled, "platform", None)
        if found is None:
            raise CallError("PL601", f"a worker runs compiled programs, not a {type(compiled).__name__}", fix="kernel.compile(...)")
        if found != self.platform:
            raise CallError(
                "PL610",
                f"`{compiled.name}` is compiled for {found}, this worker runs {self.platform}",
                fix=f"compile it with config=RunConfig(platform={self.platform!r})",
            )

    # ---- memory ----

    def alloc_tensor(self, shape: Sequence[int], dtype: Any, init: Any = None) -> DeviceTensor:
        """Memory on the device, zeros or a copy of `init`.

        Errors:
          PL407 for more than there is, PL602 for an `init` of another shape or dtype, PL609 if the worker is closed.
        """
        with self.exclusive():
            t = DeviceTensor(self, shape, dtype_of(dtype))
            if init is not None:
                t.copy_from(init)
            self._tensors[id(t)] = t
            return t

    def free_tensor(self, t: DeviceTensor) -> None:
        """Give the memory of a tensor back.

        Errors:
          PL609 for a tensor that was freed before, or is another worker's.
        """
        with self.exclusive():
            if t.worker is not self:
                raise CallError("PL609", f"{t!r} is not this worker's, {self.name}", fix="free it where it was allocated")
            if self._tensors.pop(id(t), None) is None:
                raise CallError("PL609", f"{t!r} is freed a second time", fix="free a tensor once")
            t.release()

    def malloc(self, nbytes: int) -> int:
        """Plain memory on the device: its address.

        Errors:
          PL602 for what is no number of bytes, PL407 for more than there are.
        """
        with self.exclusive():
            block = zeros(f"a block of worker {self.name}", UINT8, [max(1, _count(nbytes))])
            self._raw[block.ctypes.data] = block
            return block.ctypes.data

    def free(self, address: int) -> None:
        """Give memory of `malloc` back.

        Errors:
          PL609 for an address that `malloc` did not give, or that was freed.
        """
        with self.exclusive():
            if self._raw.pop(int(address), None) is None:
                raise CallError("PL609", f"{address:#x} is no memory of {self.name}", fix="free what malloc gave, once")

    def copy_to(self, device: Any, host: Any, nbytes: int | None = None) -> None:
        """Copy from the host to the device: a host array, or an address and a number of bytes, to a DeviceTensor or a device address.

        A DeviceTensor and an array without `nbytes` are of one shape and dtype; otherwise the first `nbytes` bytes are copied.

        Errors:
          PL609 for a device address or tensor that is not this worker's, PL602 for sizes that do not fit.
        """
        with self.exclusive():
            self._refuse_others(device)
            if isinstance(device, DeviceTensor) and not isinstance(host, int) and nbytes is None:
                device.copy_from(host)
                return
            target, size = self._bytes_at(device, nbytes)
            held = host if isinstance(host, int) else _enough(to_numpy(host), size)  # alive until it is copied: it may be made here
            ctypes.memmove(target.ctypes.data, _address(held), size)

    def copy_from(self, host: Any, device: Any, nbytes: int | None = None) -> None:
        """Copy from the device to the host: the other direction of `copy_to`, destination first.

        Errors:
          As `copy_to`; PL604 for an array that cannot be written.
        """
        with self.exclusive():
            self._refuse_others(device)
            if isinstance(device, DeviceTensor) and not isinstance(host, int) and nbytes is None:
                device.copy_to(host)
                return
            source, size = self._bytes_at(device, nbytes)
            held = host if isinstance(host, int) else _enough(written_in_place(host), size)
            ctypes.memmove(_address(held), source.ctypes.data, size)

    def _refuse_others(self, device: Any) -> None:
        if isinstance(device, DeviceTensor) and device.worker is not self:
            raise CallError("PL609", f"{device!r} is not this worker's, {self.name}", fix="copy with the worker that allocated it")

    def _bytes_at(self, device: Any, nbytes: int | None) -> tuple[np.ndarray, int]:
        """The bytes at a device address, of which only what was allocated may be copied."""
        address = device.data_ptr if isinstance(device, DeviceTensor) else int(device)
        owned = [*self._raw.values(), *(t.memory.reshape(-1).view(np.uint8) for t in self._tensors.values() if t.nbytes)]
        for block in owned:
            start = address - block.ctypes.data
            if 0 <= start < block.nbytes:
                size = block.nbytes - start if nbytes is None else _count(nbytes)
                if start + size > block.nbytes:
                    raise CallError(
                        "PL602", f"{size} bytes at {address:#x} pass the end of the memory there", fix=f"at most {block.nbytes - start}"
                    )
                return block[start : start + size], size
        raise CallError("PL609", f"{address:#x} is no memory of {self.name}", fix="pass t.data_ptr of a tensor that is not freed")

    # ---- the end ----

    def close(self) -> None:
        """Wait for what runs, then free every tensor and registration. Closing twice is closing once."""
        with self._lock:
            self._closed = True
            for t in self._tensors.values():
                t.release()
            for handle in list(self._handles):
                handle.mark_closed()
            self._tensors.clear()
            self._raw.clear()
            self._handles.clear()

    def __enter__(self) -> ChipWorker:
        with self.exclusive():
            self._entered += 1
            _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: Any) -> None:
        _active.set(_active.get()[:-1])
        with self._lock:
            self._entered -= 1
            if not self._entered:
                self.close()

    def __del__(self) -> None:
        held = len(getattr(self, "_tensors", ()))
        if held and not self._closed:
            warnings.warn(f"{self!r} was never closed, with {held} tensors allocated", ResourceWarning, stacklevel=2, source=self)


class RegistrationHandle:
    """A program on a worker. Calling it runs it.

    Attributes:
      compiled: the program.
      cid: its number on the worker.
    """

    def __init__(self, worker: ChipWorker, compiled: CompiledProgram, cid: int) -> None:
        self.compiled, self.cid = compiled, cid
        self._worker, self._closed = worker, False

    @property
    def closed(self) -> bool:
        """Whether it was unregistered, or its worker closed."""
        return self._closed

    def __call__(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Any:
        """Run the program, as `ChipWorker.run`.

        Errors:
          PL609 after `unregister` or `close`; as `ChipWorker.run`.
        """
        if self._closed:
            raise CallError("PL609", f"the registration of `{self.compiled.name}` has ended", fix="register it again")
        return self._worker.run(self.compiled, *args, config=config, **kwargs)

    def unregister(self) -> None:
        """End the registration; the program stays compiled."""
        self._worker.forget(self)

    def mark_closed(self) -> None:
        """For the worker: calls are refused from here on."""
        self._closed = True

    def __enter__(self) -> RegistrationHandle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.unregister()


def _count(nbytes: Any) -> int:
    if isinstance(nbytes, bool) or not isinstance(nbytes, int | np.integer) or nbytes < 0:
        raise CallError("PL602", f"{nbytes!r} is no number of bytes", fix="a number from 0 on")
    return int(nbytes)


def _enough(data: np.ndarray, size: int) -> np.ndarray:
    if not data.flags.c_contiguous or data.nbytes < size:
        raise CallError("PL602", f"{size} bytes do not fit {data.dtype}{list(data.shape)}", fix="a contiguous array of that many bytes")
    return data


def _address(host: int | np.ndarray) -> int:
    """Where host memory is. A bare address is believed, as C does."""
    return host if isinstance(host, int) else host.ctypes.data
