"""The FAQ, Compiling: one test for each row, named after it."""

import pytest

from pypto import ir
from pypto.errors import CallError
from pypto.runtime import ChipWorker, RunConfig
from tests.kernels import runs
from tests.run_inputs import arguments


def test_typeerror_got_an_unexpected_keyword_argument_from_compile():
    """compile()'s positional arguments are the kernel's own; options travel in config=RunConfig(...)."""
    with pytest.raises(TypeError, match="got an unexpected keyword argument") as caught:
        runs.softmax_rows.compile(skip_ptoas=True)
    assert isinstance(caught.value, CallError) and caught.value.code == "PL601"
    assert "config=RunConfig(...)" in caught.value.fix
    assert runs.softmax_rows.compile(config=RunConfig(platform="a5sim")).platform == "a5sim"


def test_the_worker_rejects_my_compiled_program():
    """The artifact's platform must match the worker's: compile for the platform you dispatch on."""
    compiled = runs.softmax_rows.compile(config=RunConfig(platform="a5sim"))
    with ChipWorker(config=RunConfig(platform="a2a3sim")) as worker:
        with pytest.raises(CallError) as caught:
            worker.register(compiled)
        assert caught.value.code == "PL610"
        assert "a5sim" in caught.value.message and "a2a3sim" in caught.value.message
        worker.register(runs.softmax_rows.compile(config=RunConfig(platform=worker.platform)))(**arguments(runs.softmax_rows))


def test_ptoas_compilation_failed_with_an_empty_message():
    """That is a crash of the ptoas binary. There is none here: compiling runs no other program, and options about it are refused."""
    import subprocess
    from unittest import mock

    with mock.patch.object(subprocess, "Popen", side_effect=AssertionError("another program was started")):
        assert ir.compile(runs.softmax_rows.lower(), skip_ptoas=True).platform == "a2a3sim"
    with pytest.raises(CallError) as caught:
        RunConfig(dump_ptoas_passes=True)
    assert caught.value.code == "PL607" and "ptoas" in caught.value.message and caught.value.message.strip()


def test_sample_tensors_give_shapes_where_annotations_do_not():
    """Beside the rows: a bare pl.Tensor is compiled for the samples it is given."""
    with pytest.raises(CallError) as caught:
        runs.doubled.compile()
    assert caught.value.code == "PL601"
    x = arguments(runs.scaled_sum)["a"]
    assert runs.doubled.compile(x, x).param_names == ["x", "out"]
