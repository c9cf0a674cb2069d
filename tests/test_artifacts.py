"""Saved programs: the same bits in another process; truncated, edited and foreign directories are refused; nothing in one is ever run."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pypto
import pypto.language as pl
from pypto.core.ir import Jaxpr, alpha_equal
from pypto.errors import CallError, PyptoError
from pypto.language.decorators import Kernel
from pypto.runtime import CompiledProgram, load
from pypto.runtime.encoding import Unreadable, decode, encode
from pypto.tile import KernelBody, Program
from tests.kernels import lowered, printed, runs
from tests.run_inputs import THREE, arguments, bits, normal

ROOT = Path(__file__).parent.parent
MANIFEST, PROGRAM = "manifest.json", "program.json"


def refused(directory, *words):
    with pytest.raises(CallError) as caught:
        load(directory)
    assert caught.value.code == "PL608", caught.value
    assert str(directory) in caught.value.message
    for word in words:
        assert word in caught.value.message
    return caught.value


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return runs.scaled_sum.compile(s=0.5).save(tmp_path_factory.mktemp("programs") / "scaled_sum")


@pytest.fixture
def copy(saved, tmp_path):
    return Path(shutil.copytree(saved, tmp_path / "copy"))


def resign(directory, **changes):
    """Edit a manifest as someone who knows the format does: every checksum is right again."""
    manifest = json.loads((directory / MANIFEST).read_text())
    del manifest["sha256"]
    for name, row in manifest["files"].items():
        data = (directory / name).read_bytes()
        row.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    manifest |= changes
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    (directory / MANIFEST).write_text(json.dumps({**manifest, "sha256": hashlib.sha256(text.encode()).hexdigest()}))


def edit(directory, change):
    """Change the program of a directory and make every checksum right again."""
    document = json.loads((directory / PROGRAM).read_text())
    change(document)
    (directory / PROGRAM).write_text(json.dumps(document))
    resign(directory)


# The same program


@pytest.mark.parametrize("kernel", THREE, ids=lambda k: k.__name__)
def test_a_loaded_program_gives_the_same_bits_and_has_the_same_surface(kernel, tmp_path):
    compiled = kernel.compile()
    again = load(compiled.save(tmp_path / "program"))
    assert bits(again(**arguments(kernel))) == bits(compiled(**arguments(kernel)))
    for name in ("name", "platform", "param_names", "output_indices", "has_return", "backend_type"):
        assert getattr(again, name) == getattr(compiled, name)


def test_another_process_gives_the_same_bits(tmp_path):
    for kernel in THREE:
        kernel.compile().save(tmp_path / kernel.__name__)
    program = f"""
import pypto
from pypto.runtime import load
from tests.run_inputs import THREE, arguments, bits
for executor in ("reference", "cpu"):
    for kernel in THREE:
        with pypto.override(executor=executor, check=executor == "reference"):
            for part in bits(load({str(tmp_path)!r} + "/" + kernel.__name__)(**arguments(kernel))):
                print(part.hex())
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    assert found.split() == [part.hex() for kernel in THREE for part in bits(kernel(**arguments(kernel)))] * 2


def test_a_loaded_program_keeps_defaults_and_plain_python_arguments(saved, tmp_path):
    x = normal(8, 16)
    assert bits(load(saved)(x, x)) == bits(runs.scaled_sum(x, x, 0.5))
    again = load(runs.repeated.compile(times=2).save(tmp_path / "repeated"))
    assert np.array_equal(again(x), x + x + x)
    with pytest.raises(CallError) as caught:
        again(x, 3)
    assert caught.value.code == "PL602"


def test_an_error_in_a_loaded_program_points_to_the_line_of_the_kernel(tmp_path):
    @pl.jit
    def reads_at(x: pl.Tensor[[8, 16], pl.FP32], i: pl.Scalar[pl.INT32], out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = x
            pl.write(out, [0, 0], pl.read(x, [i, 0]))  # refused

    again = load(reads_at.compile().save(tmp_path / "reads_at"))
    with pytest.raises(PyptoError) as caught:
        again(normal(8, 16), 8)
    assert caught.value.code == "PL303"
    assert caught.value.source.file == __file__ and caught.value.source.text.endswith("# refused")


def test_a_loaded_program_can_be_validated_and_saved_again(saved, tmp_path):
    again = load(load(saved).save(tmp_path / "again"))
    assert again.validate_ir(arguments(runs.scaled_sum))[0] == "traced"


def test_from_dir_is_the_same_as_load(saved):
    assert CompiledProgram.from_dir(str(saved)).output_dir == saved


NOT_LOWERED = {"updates_a_cache", "doubled", "repeated"}  # a device write, and parameters that only a call describes
KERNELS = [
    k
    for m in (lowered, printed, runs)
    for k in vars(m).values()
    if isinstance(k, Kernel) and k.kind != "inline" and k.__name__ not in NOT_LOWERED
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.__name__)
def test_a_program_is_the_same_after_it_was_written_and_read(kernel):
    program = kernel.lower()
    again = decode(json.loads(json.dumps(encode(program))))
    assert alpha_equal(again.orchestration, program.orchestration)
    assert alpha_equal(again.traced, program.traced)
    assert again.as_text(lines=True) == program.as_text(lines=True)
    for a, b in zip(again.kernels, program.kernels, strict=True):
        assert alpha_equal(a.jaxpr, b.jaxpr)
        assert (a.name, a.blocks, a.unit, a.options) == (b.name, b.blocks, b.unit, b.options)


def test_nothing_of_a_program_is_left_out_when_it_is_written():
    """Whoever gives a program or a kernel another field must give it a written form, too."""
    assert {f.name for f in dataclasses.fields(Program)} == {"name", "orchestration", "kernels", "platform", "traced"}
    assert {f.name for f in dataclasses.fields(KernelBody)} == {"name", "jaxpr", "blocks", "unit", "options"}
    assert {f.name for f in dataclasses.fields(Jaxpr)} == {"invars", "eqns", "outs", "name", "facts"}


def test_a_constant_array_is_saved_bit_for_bit():
    from pypto.core.ir import Literal
    from pypto.core.trace import aval_of

    table = np.array([[1.5, -0.0], [np.nan, np.inf]], pl.BF16.storage)
    program = runs.softmax_rows.lower()
    program = dataclasses.replace(program, orchestration=program.orchestration.replace(outs=(Literal(table, aval_of(table)),)))
    (again,) = decode(json.loads(json.dumps(encode(program)))).orchestration.outs
    assert again.value.tobytes() == table.tobytes() and again.value.dtype == table.dtype


def test_what_has_no_written_form_is_refused_when_it_is_saved(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Times:
        n: int

    @pl.jit
    def repeated(x: pl.Tensor[[8, 16], pl.FP32], times, out: pl.Out[pl.Tensor[[8, 16], pl.FP32]]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.muls(x, float(times.n))

    with pytest.raises(CallError) as caught:
        repeated.compile(times=Times(2)).save(tmp_path / "program")
    assert caught.value.code == "PL608" and not (tmp_path / "program").exists()


# Saving


def test_saving_replaces_a_saved_program_and_never_other_files(saved, copy, tmp_path):
    runs.softmax_rows.compile().save(copy)
    assert load(copy).name == "softmax_rows"
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").write_text("mine")
    with pytest.raises(CallError) as caught:
        runs.softmax_rows.compile().save(tmp_path / "notes")
    assert caught.value.code == "PL608"
    assert (tmp_path / "notes" / "todo.txt").read_text() == "mine"


def test_saving_again_replaces_what_was_saved_and_nothing_else(tmp_path):
    target = tmp_path / "program"
    runs.softmax_rows.compile(config=pypto.runtime.RunConfig(dump_passes=True)).save(target)
    (target / "notes").mkdir()
    (target / "notes" / "todo.txt").write_text("mine")
    (target / "passes_dump" / "why.txt").write_text("mine, too")
    (target / "link").symlink_to("notes")
    runs.scaled_sum.compile().save(target)
    assert load(target).name == "scaled_sum"
    left = {p.relative_to(target).as_posix() for p in target.rglob("*") if not p.is_dir() or p.is_symlink()}
    assert {"notes/todo.txt", "passes_dump/why.txt", "link", MANIFEST, PROGRAM} == left - {"link/todo.txt"}
    assert (target / "notes" / "todo.txt").read_text() == "mine" and (target / "link").is_symlink()
    assert [p.name for p in tmp_path.iterdir()] == ["program"]


def test_saving_over_a_manifest_of_something_else_is_refused(tmp_path):
    (tmp_path / MANIFEST).write_text('{"format": "something else"}')
    with pytest.raises(CallError) as caught:
        runs.softmax_rows.compile().save(tmp_path)
    assert caught.value.code == "PL608"
    assert (tmp_path / MANIFEST).read_text() == '{"format": "something else"}'


def test_saving_over_a_damaged_program_mends_it(copy):
    for name in (MANIFEST, PROGRAM):
        (copy / name).write_bytes((copy / name).read_bytes()[:99])
        refused(copy)
        assert load(runs.softmax_rows.compile().save(copy)).name == "softmax_rows"


def test_saving_leaves_nothing_else_behind(tmp_path):
    runs.softmax_rows.compile().save(tmp_path / "program")
    runs.softmax_rows.compile().save(tmp_path / "program")
    assert [p.name for p in tmp_path.iterdir()] == ["program"]


def test_saving_into_an_empty_directory_works(tmp_path):
    assert load(runs.softmax_rows.compile().save(tmp_path)).name == "softmax_rows"


# Damaged and foreign directories


def test_a_missing_directory_a_file_and_a_foreign_directory_are_refused(tmp_path):
    refused(tmp_path / "nowhere")
    (tmp_path / "file").write_text("{}")
    refused(tmp_path / "file")
    refused(tmp_path, MANIFEST)
    (tmp_path / MANIFEST).write_text('{"format": "something else"}')
    refused(tmp_path, MANIFEST)


@pytest.mark.parametrize("name", [MANIFEST, PROGRAM])
@pytest.mark.parametrize("keep", [0.0, 0.5, 0.999])
def test_a_truncated_file_is_refused_by_name(copy, name, keep):
    data = (copy / name).read_bytes()
    (copy / name).write_bytes(data[: int(len(data) * keep)])
    refused(copy, name)


@pytest.mark.parametrize("name", [MANIFEST, PROGRAM])
def test_a_missing_file_is_refused_by_name(copy, name):
    (copy / name).unlink()
    refused(copy, name)


def test_one_changed_byte_is_refused_by_name(copy):
    for name in (PROGRAM, MANIFEST):
        data = bytearray((copy / name).read_bytes())
        place = data.index(b'"a2a3sim"') + 2
        data[place] ^= 1
        (copy / name).write_bytes(data)
        refused(copy, name)


def test_a_program_of_another_directory_is_refused(copy, tmp_path):
    other = runs.softmax_rows.compile().save(tmp_path / "other")
    shutil.copy(other / PROGRAM, copy / PROGRAM)
    refused(copy, PROGRAM)
    resign(copy)
    refused(copy, "different programs")


def test_another_schema_and_another_contract_are_refused(copy):
    resign(copy, schema=99)
    refused(copy, "99")
    resign(copy, schema=1, numerics="of tomorrow")
    refused(copy, "of tomorrow")


DAMAGES = {
    "an unknown op": lambda d: d["bodies"][0]["eqns"][0].__setitem__(0, "no_such_op"),
    "a private name as op": lambda d: d["bodies"][0]["eqns"][0].__setitem__(0, "__import__"),
    "a variable that is not there": lambda d: d["bodies"][0]["eqns"][0][1].__setitem__(0, 10**6),
    "a negative row": lambda d: d["bodies"][0]["eqns"][0][1].__setitem__(0, -1),
    "a body that contains itself": lambda d: d["bodies"][0]["eqns"][0][3].__setitem__("body", {"body": 0}),
    "a value of an unknown kind": lambda d: d["bodies"][0]["eqns"][0][3].__setitem__("sizes", {"pickle": "gASVJA=="}),
    "an enum that is not ours": lambda d: d["bodies"][0]["eqns"][0][3].__setitem__("sizes", {"enum": ["os", "system"]}),
    "an unknown dtype": lambda d: d["avals"][0].__setitem__("dtype", "FP1"),
    "a text as extent": lambda d: d["avals"][0].__setitem__("shape", ["8"]),
    "no variables": lambda d: d.pop("vars"),
    "no bodies": lambda d: d.__setitem__("bodies", []),
    "a kernel without a body": lambda d: d["program"]["kernels"][0].__setitem__("body", None),
    "equations out of order": lambda d: d["bodies"][d["program"]["kernels"][0]["body"]]["eqns"].reverse(),
    "a missing kernel": lambda d: d["program"].__setitem__("kernels", []),
    "a result of another shape": lambda d: [row.__setitem__("shape", [3, 16]) for row in d["avals"] if row["is"] == "tile"],
    "a number instead of everything": lambda d: d.clear(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_program_edited_with_right_checksums_is_still_refused(copy, damage):
    edit(copy, DAMAGES[damage])
    refused(copy)


@pytest.mark.parametrize("field", ["source", "defaults", "fixed"])
def test_a_manifest_edited_with_right_checksums_is_still_refused(copy, field):
    resign(copy, **{field: {"x": ["y"]} if field != "defaults" else 7})
    refused(copy)


def test_deep_nesting_is_refused_not_a_crash(copy):
    (copy / PROGRAM).write_text("[" * 200_000)
    resign(copy)
    refused(copy)


def test_a_file_outside_the_directory_is_not_read(copy, tmp_path):
    (tmp_path / "secret.txt").write_text("x")
    manifest = json.loads((copy / MANIFEST).read_text())
    resign(copy, files={**manifest["files"], "../secret.txt": {"bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}})
    refused(copy, "secret.txt")


def test_loading_runs_no_code_of_the_directory(copy, tmp_path):
    mark = tmp_path / "ran"
    for name in ("__init__.py", "manifest.py", "program.py", "sitecustomize.py", "json.py", "conftest.py", "debug/run.py"):
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(f"open({str(mark)!r}, 'w').close()")
    (copy / "program.pkl").write_bytes(b"cposix\nsystem\n(S'touch " + str(mark).encode() + b"'\ntR.")
    program = f"import os; os.chdir({str(copy)!r}); from pypto.runtime import load; load({str(copy)!r})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-P", "-c", program], env=environment, check=True, capture_output=True)
    assert not mark.exists()


def test_the_reader_names_neither_pickle_nor_eval():
    import ast

    names = {"pickle", "marshal", "shelve", "eval", "exec", "compile", "__import__", "import_module", "getattr"}
    for file in ("encoding.py", "artifacts.py"):
        tree = ast.parse((ROOT / "pypto" / "runtime" / file).read_text())
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
            a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
        }
        assert not used & names


def test_decode_refuses_every_small_value():
    for value in (None, 1, "x", [], {}, {"schema": 1}, {"schema": 1, "unknowns": 3}):
        with pytest.raises(Unreadable):
            decode(value)


def test_platforms_are_compared_when_a_loaded_program_is_dispatched(saved):
    with pypto.override(platform="a5sim"), pytest.raises(CallError) as caught, pypto.runtime.ChipWorker() as worker:
        worker.register(load(saved))
    assert caught.value.code == "PL610"
