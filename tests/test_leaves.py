"""The leaves: source places, the error family, the platform table, pytrees and the configuration."""

import contextvars
import copy
import dataclasses
import linecache
import pickle
import threading
import warnings
from typing import NamedTuple

import pytest

import pypto
from pypto import config, errors, tree
from pypto.config import Config
from pypto.errors import CODES, BodyError, CallError, InternalError, NumericsError, PyptoError, PyptoWarning, ShapeError, warn
from pypto.platform import PLATFORMS, Platform, Space, platform_of
from pypto.source import Frame, Source, resolve, user_frame, user_source

pytestmark = pytest.mark.limits

# Source places


def snippet_of(monkeypatch, text, column, end):
    monkeypatch.setitem(linecache.cache, "<typed>", (len(text), None, [text + "\n"], "<typed>"))
    return Source("<typed>", 1, column, end).snippet().splitlines()


def test_a_snippet_has_the_place_the_line_and_carets_under_the_span(monkeypatch):
    assert snippet_of(monkeypatch, "out = x + y", 6, 11) == ["  --> <typed>:1:7", " 1 | out = x + y", "   |       ^^^^^"]


def test_a_place_without_an_end_is_underlined_to_the_end_of_the_line(monkeypatch):
    assert snippet_of(monkeypatch, "return x", 7, 0)[2] == "   |        ^"
    assert snippet_of(monkeypatch, "return x   ", 0, 0)[2] == "   | ^^^^^^^^"


def test_carets_stand_under_the_span_behind_tabs_and_behind_wide_characters(monkeypatch):
    assert snippet_of(monkeypatch, "\tx + y", 1, 6)[2] == "   | \t^^^^^"
    assert snippet_of(monkeypatch, 'at(name="注意", k)', 13, 14)[2] == "   | " + " " * 15 + "^"
    assert snippet_of(monkeypatch, 'k("注意")', 2, 6)[2] == "   |   ^^^^^^"


def test_a_file_that_is_gone_leaves_the_place_alone():
    assert Source("nowhere/at_all.py", 3, 4, 9).snippet() == "  --> nowhere/at_all.py:3:5"
    assert Source("nowhere/at_all.py", 3).text == ""


def test_a_file_below_the_working_directory_is_shown_relative_to_it(monkeypatch, tmp_path):
    file = tmp_path / "kernels" / "k.py"
    file.parent.mkdir()
    file.write_text("x = 1\n")
    place = Source(str(file), 1, 0, 1)
    monkeypatch.chdir(tmp_path)
    assert place.snippet().startswith("  --> kernels/k.py:1:1\n")
    monkeypatch.chdir(file.parent.parent.parent)
    assert str(Source("/elsewhere/k.py", 2)) == "k.py:2"
    assert Source("/elsewhere/k.py", 2).snippet() == "  --> /elsewhere/k.py:2:1"


def grenze(größe):
    return (größe + 1), größe / 0


def test_columns_are_characters_not_bytes():
    try:
        grenze(2)
    except ZeroDivisionError as error:
        traceback = error.__traceback__
        assert traceback is not None and traceback.tb_next is not None
        inner = traceback.tb_next
    place = Frame(inner.tb_frame.f_code, inner.tb_lasti).resolve()
    assert place.text[place.column : place.end_column] == "größe / 0"


def test_a_frame_is_resolved_only_when_it_is_shown(monkeypatch):
    calls = []
    monkeypatch.setattr("pypto.source._positions", lambda code: calls.append(code) or tuple(code.co_positions()))
    frame = user_frame()
    assert frame is not None and not calls
    assert frame.resolve().text.strip() == "frame = user_frame()"
    assert calls


def test_the_users_place_is_the_innermost_line_outside_the_library():
    place = tree.tree_map(lambda leaf: user_source(), 0)  # the lambda is ours here: the user's line is the lambda's
    assert place is not None and place.file == __file__ and place.text.strip().startswith("place = tree.tree_map")
    with pytest.raises(PyptoError) as caught:
        tree.unflatten(tree.LEAF, [])
    assert caught.value.source is not None and caught.value.source.text.strip() == "tree.unflatten(tree.LEAF, [])"


def test_a_place_resolves_to_itself():
    place = Source("k.py", 7)
    assert resolve(place) is place and resolve(None) is None


# Errors

FAMILIES = {cls.family: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, PyptoError) and cls.family}


def test_every_code_belongs_to_one_family():
    assert all(sum(code.startswith(family) for family in FAMILIES) == 1 for code in CODES)
    assert set(FAMILIES) == {code[:3] for code in CODES}


def test_every_code_is_two_letters_and_three_digits_and_says_what_it_is_about():
    assert all(code.startswith("PL") and code[2:].isdigit() and len(code) == 5 for code in CODES)
    assert all((text and text[0].islower()) or text[0] == "`" for text in CODES.values())
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize("code", ["PL301", "PL999", "E1"])
def test_a_code_of_another_family_or_of_none_is_our_own_mistake(code):
    with pytest.raises(AssertionError):
        BodyError(code, "x")


def test_an_error_shows_code_sentence_place_and_fix_in_this_order(monkeypatch):
    monkeypatch.setitem(linecache.cache, "<typed>", (5, None, ["a / b\n"], "<typed>"))
    error = ShapeError("PL305", "no division", fix="multiply", at=Source("<typed>", 1, 2, 3))
    assert str(error).splitlines() == ["PL305: no division", "  --> <typed>:1:3", " 1 | a / b", "   |   ^", "  fix: multiply"]


def test_an_error_knows_the_users_line_without_being_told():
    error = NumericsError("PL703", "no rule")
    assert error.source is not None and error.source.text.strip() == 'error = NumericsError("PL703", "no rule")'
    assert not error.placed and NumericsError("PL703", "no rule", at=error.source).placed


def test_a_wrong_call_is_a_type_error_too():
    with pytest.raises(TypeError):
        raise CallError("PL601", "too few")


def test_an_internal_error_is_an_error_of_the_library():
    assert issubclass(InternalError, PyptoError) and "PL901" in CODES


def test_a_warning_has_the_form_of_an_error_and_stands_at_the_users_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("PL208", "stale", fix="read the other", at=Source("k.py", 12))
    (found,) = caught
    assert found.category is PyptoWarning and (found.filename, found.lineno) == ("k.py", 12)
    assert str(found.message).splitlines() == ["PL208: stale", "  --> k.py:12:1", "  fix: read the other"]


def test_a_warning_needs_a_code_of_the_table():
    with pytest.raises(AssertionError):
        warn("PL000", "x")


# The platform table: figures of the original compiler

A2A3 = {Space.VEC: 188416, Space.MAT: 524288, Space.LEFT: 65536, Space.RIGHT: 65536, Space.ACC: 131072, Space.BIAS: 1024}
A5 = {**A2A3, Space.VEC: 245760, Space.ACC: 262144, Space.BIAS: 4096, Space.LEFT_SCALE: 4096, Space.RIGHT_SCALE: 4096}
PATHS = {
    (Space.DDR, Space.VEC), (Space.DDR, Space.MAT), (Space.VEC, Space.DDR), (Space.MAT, Space.LEFT), (Space.MAT, Space.RIGHT),
    (Space.MAT, Space.BIAS), (Space.ACC, Space.MAT), (Space.ACC, Space.DDR),
}  # fmt: skip
MORE_ON_A5 = {(Space.VEC, Space.MAT), (Space.ACC, Space.VEC), (Space.MAT, Space.LEFT_SCALE), (Space.MAT, Space.RIGHT_SCALE)}


def test_the_platforms():
    assert set(PLATFORMS) == {"a2a3", "a2a3sim", "a5", "a5sim", "cpu"}
    assert all(name == row.name for name, row in PLATFORMS.items())


@pytest.mark.parametrize("name, sizes", [("a2a3", A2A3), ("a2a3sim", A2A3), ("a5", A5), ("a5sim", A5)])
def test_capacities_in_bytes(name, sizes):
    assert platform_of(name).capacity == sizes


@pytest.mark.parametrize("name, cube, vector, granule", [("a2a3sim", 24, 48, 512), ("a5sim", 36, 72, 128)])
def test_cores_and_granule_of_global_memory(name, cube, vector, granule):
    row = platform_of(name)
    assert (row.cube_cores, row.vector_cores, row.gm_granule) == (cube, vector, granule)


def test_rows_and_addresses_are_multiples_of_32_bytes_and_cube_operands_of_16_elements():
    assert {(row.row_align, row.address_align, row.fractal) for row in PLATFORMS.values()} == {(32, 32, 16)}


def test_the_assembler_calls_the_families_a3_and_a5():
    assert {row.name: row.pto_arch for row in PLATFORMS.values() if row.checked} == {
        "a2a3": "a3", "a2a3sim": "a3", "a5": "a5", "a5sim": "a5",
    }  # fmt: skip


@pytest.mark.parametrize("name, paths", [("a2a3", PATHS), ("a5", PATHS | MORE_ON_A5)])
def test_data_moves_along_the_paths_of_the_chip_only(name, paths):
    row = platform_of(name)
    assert {(a, b) for a in Space for b in Space if row.moves(a, b)} == paths | {(s, s) for s in Space}


def test_only_cpu_is_not_held_to_the_limits():
    assert [row.name for row in PLATFORMS.values() if not row.checked] == ["cpu"]


def test_a_simulated_platform_differs_from_its_chip_in_its_name_only():
    for chip in ("a2a3", "a5"):
        real, simulated = (dataclasses.asdict(platform_of(name)) for name in (chip, f"{chip}sim"))
        assert {key for key in real if real[key] != simulated[key]} == {"name"}


def test_an_unknown_platform_is_refused():
    with pytest.raises(CallError) as caught:
        platform_of("a4")
    assert caught.value.code == "PL606" and "a2a3sim" in caught.value.fix


def test_a_row_of_the_table_cannot_be_changed():
    assert isinstance(platform_of("a5"), Platform)
    with pytest.raises(dataclasses.FrozenInstanceError):
        platform_of("a5").fractal = 8  # type: ignore[misc]


# Pytrees


class Pair(NamedTuple):
    a: object
    b: object


class Nothing(NamedTuple):
    pass


@dataclasses.dataclass(frozen=True)
class State:
    __pypto_tree__ = True
    w: object
    b: object


@dataclasses.dataclass(frozen=True)
class Plain:
    w: object


TREES = [
    (5, [5]),
    (None, []),
    ((), []),
    ([1, (2, 3)], [1, 2, 3]),
    ({"b": 1, "a": [2, None]}, [2, 1]),
    ({2: "two", 1: "one"}, ["one", "two"]),
    ({1: "x", "a": "y"}, ["x", "y"]),
    (Pair(1, Pair(2, None)), [1, 2]),
    (Nothing(), []),
    (State(w=1, b=(2, 3)), [1, 2, 3]),
    ({"x": [State(1, 2)], "y": ()}, [1, 2]),
]


@pytest.mark.parametrize("value, leaves", TREES, ids=lambda x: repr(x)[:40])
def test_a_tree_comes_apart_and_goes_together_again(value, leaves):
    found, structure = tree.flatten(value)
    assert found == leaves and structure.leaves == len(leaves)
    again = tree.unflatten(structure, found)
    assert again == value and type(again) is type(value)


def test_a_dataclass_that_does_not_ask_for_it_is_a_leaf():
    plain = Plain([1, 2])
    assert tree.flatten(plain) == ([plain], tree.LEAF)
    assert tree.flatten(State)[0] == [State]  # the class itself, not an instance


def test_subclasses_of_containers_are_leaves():
    class Special(dict):
        pass

    special = Special(a=1)
    assert tree.flatten(special)[0] == [special]


def test_structures_are_equal_and_hash_alike_when_the_trees_have_one_shape():
    first, second = tree.flatten({"a": (1, 2)})[1], tree.flatten({"a": ("x", None)})[1]
    assert tree.flatten({"a": (7, 8)})[1] == first and hash(tree.flatten({"a": (7, 8)})[1]) == hash(first)
    assert second != first
    assert tree.flatten([1])[1] != tree.flatten((1,))[1]
    assert tree.flatten(Pair(1, 2))[1] != tree.flatten((1, 2))[1]
    assert tree.flatten({2: 0, 1: 0})[1] == tree.flatten({1: 0, 2: 0})[1]


def test_a_structure_shows_its_tree():
    assert str(tree.flatten({"b": 2, "a": (1, None)})[1]) == "dict(a: tuple(*, NoneType()), b: *)"


def test_map_takes_trees_of_one_structure():
    assert tree.tree_map(lambda a, b: a + b, {"x": (1, [2])}, {"x": (10, [20])}) == {"x": (11, [22])}


@pytest.mark.parametrize("other", [(1,), [1, 2], (1, (2,)), (1, None)])
def test_trees_of_different_structure_are_refused(other):
    with pytest.raises(CallError) as caught:
        tree.tree_map(lambda a, b: a, (1, 2), other)
    assert caught.value.code == "PL601"


@pytest.mark.parametrize("leaves", [[], [1], [1, 2, 3]])
def test_the_wrong_number_of_leaves_is_refused(leaves):
    with pytest.raises(CallError) as caught:
        tree.unflatten(tree.flatten((1, 2))[1], leaves)
    assert caught.value.code == "PL601"


# Configuration


def test_the_defaults():
    assert Config() == Config(platform="a2a3sim", check=None, verify=False, executor="cpu", threads=None, cache=True)


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.current().check = False  # type: ignore[misc]


def test_an_override_holds_for_its_block_and_nests():
    before = config.current()
    with pypto.override(check=False) as outer:
        assert config.current() is outer and not outer.check
        with pypto.override(platform="a5"):
            assert config.current() == dataclasses.replace(before, platform="a5", check=False)
        assert config.current() is outer
    assert config.current() == before


def test_an_override_ends_with_its_block_when_the_block_fails():
    before = config.current()
    with pytest.raises(ZeroDivisionError), pypto.override(check=False, verify=True):
        1 / 0
    assert config.current() == before


def test_an_unknown_field_is_refused_at_its_line_and_changes_nothing():
    before = config.current()
    with pytest.raises(CallError) as caught, pypto.override(check=False, chekc=False):
        raise AssertionError("the block must not run")
    assert caught.value.code == "PL606" and "check" in caught.value.fix
    assert caught.value.source is not None and "chekc=False" in caught.value.source.text
    assert config.current() == before


def test_an_unknown_platform_is_refused_at_its_line():
    with pytest.raises(CallError) as caught, pypto.override(platform="a4"):
        raise AssertionError("the block must not run")
    assert caught.value.code == "PL606"
    assert caught.value.source is not None and 'platform="a4"' in caught.value.source.text


def test_a_config_of_an_unknown_platform_cannot_be_made():
    with pytest.raises(CallError) as caught:
        Config(platform="a4")
    assert caught.value.code == "PL606"


def test_threads_have_configurations_of_their_own():
    seen = []
    with pypto.override(verify=True):
        thread = threading.Thread(target=lambda: seen.append(config.current().verify))
        thread.start()
        thread.join()
    assert seen == [False]


@pytest.mark.parametrize(
    "wrong",
    [{"cache": 1}, {"check": 1}, {"cache_megabytes": -1}, {"cache_megabytes": 1.5}, {"cache_directory": 3}, {"executor": "gpu"}],
    ids=str,
)
def test_a_value_no_field_can_have_is_refused(wrong):
    with pytest.raises(PyptoError) as caught:
        Config(**wrong)
    assert caught.value.code == "PL606"


def test_a_context_keeps_the_configuration_it_was_copied_with():
    with pypto.override(platform="a5"):
        context = contextvars.copy_context()
    assert context.run(config.current).platform == "a5" and config.current().platform == "a2a3sim"


def test_a_config_copies_and_pickles():
    changed = Config(platform="a5sim", check=False)
    assert copy.deepcopy(changed) == changed == pickle.loads(pickle.dumps(changed))
