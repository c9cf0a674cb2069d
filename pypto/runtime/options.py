"""The enumerations of the run surface: back ends, pass dumps, planners, phases. Values that cannot act here say why."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pypto import config
from pypto.errors import CallError
from pypto.platform import platform_of


class BackendType(enum.Enum):
    """The chip family that code is made for."""

    Ascend910B = "a2a3"
    Ascend950 = "a5"

    @staticmethod
    def of(platform: str) -> BackendType:
        """The family of a platform.

        >>> BackendType.of("a5sim")
        <BackendType.Ascend950: 'a5'>
        """
        return BackendType(platform_of(platform).family)


class PassDumpLevel(enum.Enum):
    """What is written after every pass: nothing, the program, or the program with the user's lines."""

    NONE = 0
    CONCISE = 1
    EXPLICIT = 2

    @staticmethod
    def of(value: bool | PassDumpLevel) -> PassDumpLevel:
        """A level from what users write: a level, or True for CONCISE."""
        if isinstance(value, PassDumpLevel):
            return value
        if isinstance(value, bool):
            return PassDumpLevel.CONCISE if value else PassDumpLevel.NONE
        raise CallError("PL606", f"dump_passes={value!r}", fix="True, False or a PassDumpLevel")


class OptimizationStrategy(enum.Enum):
    """Which passes run. There is one strategy."""

    Default = "default"


class MemoryPlanner(enum.Enum):
    """Who plans on-chip buffers."""

    PYPTO = "pypto"
    DSA_RP = "dsa_rp"
    PTOAS = "ptoas"


class DiagnosticPhase(enum.Enum):
    """When warnings are given: never, or as they are found."""

    NONE = 0
    PrePipeline = 1
    PostPass = 2
    PostPipeline = 3


class VerificationLevel(enum.Enum):
    """Whether the verifier runs around the passes."""

    NONE = 0
    BASIC = 1
    ROUNDTRIP = 2


class RuntimeKind(enum.Enum):
    """How an orchestration reaches the cores on a device."""

    TENSORMAP_AND_RINGBUFFER = "tensormap_and_ringbuffer"
    HOST_BUILD_GRAPH = "host_build_graph"


@dataclass(frozen=True)
class DistributedConfig:
    """Which devices a distributed program runs on."""

    device_ids: tuple[int, ...] = (0,)
    num_sub_workers: int = 0
    runtime: str = "tensormap_and_ringbuffer"
    aicpu_thread_num: int = 0


def set_backend_type(kind: BackendType) -> None:
    """Make a chip family the default of everything that is compiled from here on, in this context (thread or task).

    >>> import contextvars
    >>> contextvars.copy_context().run(lambda: (set_backend_type(BackendType.Ascend950), get_backend_type())[1])
    <BackendType.Ascend950: 'a5'>
    """
    if not isinstance(kind, BackendType):
        raise CallError("PL606", f"{kind!r} is no back end", fix="BackendType.Ascend910B or BackendType.Ascend950")
    config.install(platform=f"{kind.value}sim")


def get_backend_type() -> BackendType:
    """The chip family that is compiled for where nothing else is said."""
    return BackendType.of(config.current().platform)


def is_backend_configured() -> bool:
    """Whether this context compiles for another chip family than the default, Ascend910B."""
    return get_backend_type() is not BackendType.Ascend910B


def reset_for_testing() -> None:
    """Undo `set_backend_type` in this context."""
    config.install(platform=config.Config().platform)
