"""The directory of a compiled program: a manifest with checksums, and the program as JSON. Reading one never runs anything.

| file | holds |
|---|---|
| manifest.json | what this is, of which version, for which platform, how it is called, the size and SHA-256 of every file |
| program.json | the program (see `encoding`) |
| passes_dump/NN_after_NAME.txt | for people: the program after each pass |
| report/pipeline_profile.txt, .json | for people: seconds of each pass |
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto import numerics
from pypto.errors import CallError, PyptoError
from pypto.platform import PLATFORMS
from pypto.runtime.encoding import SCHEMA, Unreadable, decode
from pypto.source import Source
from pypto.tile import Program, verify, verify_jaxpr

FORMAT = "pypto compiled program"
MANIFEST = "manifest.json"
PROGRAM = "program.json"


@dataclass(frozen=True)
class Saved:
    """What a directory holds: the program, and the facts of its manifest."""

    program: Program
    facts: dict[str, Any]


def write(directory: Path, document: dict[str, Any], facts: dict[str, Any], texts: dict[str, str]) -> None:
    """Write a directory. It appears complete or not at all. Of one of ours that is there already, the files that its manifest names
    are replaced; others, such as dumps of runs and notes of people, stay.

    Args:
      document: the encoded program.
      facts: how it is called, as JSON.
      texts: further files by relative path.
    Errors:
      PL608 for a directory that holds something else.
    """
    replaced = _replaceable(directory)
    contents = {PROGRAM: json.dumps(document, separators=(",", ":")), **texts}
    files = {name: {"bytes": len(text.encode()), "sha256": _sum(text.encode())} for name, text in sorted(contents.items())}
    manifest = {"format": FORMAT, "schema": SCHEMA, "numerics": numerics.VERSION, **facts, "files": files}
    contents[MANIFEST] = json.dumps({**manifest, "sha256": _sum(_canonical(manifest))}, indent=1)
    directory.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        for name, text in contents.items():
            file = building / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        if directory.exists():
            _keep_others(directory, building, {*contents, *replaced})
            old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.old.", dir=directory.parent))
            os.replace(directory, old / "replaced")
            os.replace(building, directory)
            shutil.rmtree(old)
        else:
            os.replace(building, directory)
    finally:
        if building.exists():
            shutil.rmtree(building)


def _replaceable(directory: Path) -> set[str]:
    """The files of a program that is saved there already."""
    if not directory.exists() or not any(directory.iterdir()):
        return set()
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
    except FileNotFoundError:
        manifest = None
    except (OSError, ValueError, RecursionError):  # a damaged one: saving anew is how it is mended
        return {MANIFEST, PROGRAM}
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CallError(
            "PL608", f"{directory} holds other files, which saving would mix with the program's", fix="an empty or new directory"
        )
    files = manifest.get("files")
    return {MANIFEST, PROGRAM, *(files if isinstance(files, dict) else ())}


def _keep_others(directory: Path, building: Path, replaced: set[str]) -> None:
    """Bring every file that is not replaced along. They are linked, not moved: whatever happens, none is lost."""
    for folder, inner, files in os.walk(directory):
        for name in (*files, *(d for d in inner if (Path(folder) / d).is_symlink())):
            file = Path(folder) / name
            place = file.relative_to(directory)
            if place.as_posix() in replaced:
                continue
            target = building / place
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(file, target, follow_symlinks=False)
            except OSError:  # a file system without links
                shutil.copy2(file, target, follow_symlinks=False)


def read(directory: Path) -> Saved:
    """The program in a directory that `write` made.

    Errors:
      PL608 for anything else: no directory, a foreign, truncated or edited one, one of another version.
    """
    manifest = _manifest(directory)
    for name, expected in manifest["files"].items():
        file = directory / name
        if not _is_inside(directory, file) or not file.is_file():
            raise _refused(directory, f"{name} is missing")
        data = file.read_bytes()
        if len(data) < expected["bytes"]:
            raise _refused(directory, f"{name} is truncated: {len(data)} of {expected['bytes']} bytes")
        if _sum(data) != expected["sha256"]:
            raise _refused(directory, f"{name} was changed after it was saved")
    try:
        program = decode(json.loads((directory / PROGRAM).read_bytes()))
        verify(program)
        if program.traced is not None:
            verify_jaxpr(program.traced)
    except (Unreadable, ValueError, RecursionError) as error:
        raise _refused(directory, f"{PROGRAM} is no program of this version: {error}") from None
    except PyptoError as error:  # well formed, but not what the compiler makes
        raise _refused(directory, f"{PROGRAM} is no valid program: {error.message}") from None
    if (program.name, program.platform) != (manifest["name"], manifest["platform"]):
        raise _refused(directory, f"{MANIFEST} and {PROGRAM} are of different programs")
    return Saved(program, manifest)


def call_surface(directory: Path, facts: dict[str, Any]) -> tuple[Source, dict[str, Any], list[tuple[int, str, Any]]]:
    """From a manifest: where the kernel was written, the values that calls may leave out, and those it was compiled for.

    Errors:
      PL608 if they are not what `write` puts there.
    """
    source, defaults, fixed = facts.get("source"), facts.get("defaults"), facts.get("fixed")
    plain = (bool, int, float, str, type(None))
    fits = (
        isinstance(source, list)
        and [type(x) for x in source] == [str, int, int, int]
        and isinstance(defaults, dict)
        and all(isinstance(x, plain) for x in defaults.values())
        and isinstance(fixed, list)
        and all(isinstance(r, list) and len(r) == 3 and type(r[0]) is int and type(r[1]) is str and isinstance(r[2], plain) for r in fixed)
    )
    if not fits:
        raise _refused(directory, f"{MANIFEST} does not say how the program is called")
    assert isinstance(source, list) and isinstance(defaults, dict) and isinstance(fixed, list)
    return Source(*source), defaults, [tuple(r) for r in fixed]


def _manifest(directory: Path) -> dict[str, Any]:
    file = directory / MANIFEST
    if not directory.is_dir():
        raise _refused(directory, "there is no such directory")
    if not file.is_file():
        raise _refused(directory, f"it has no {MANIFEST}")
    try:
        manifest = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _refused(directory, f"{MANIFEST} is truncated or no JSON: {error}") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise _refused(directory, f"{MANIFEST} is not one of a {FORMAT}")
    if manifest.get("schema") != SCHEMA:
        raise _refused(directory, f"it has schema {manifest.get('schema')!r}, this version reads {SCHEMA}")
    if manifest.pop("sha256", None) != _sum(_canonical(manifest)):
        raise _refused(directory, f"{MANIFEST} was changed after it was saved")
    if manifest.get("numerics") != numerics.VERSION:
        raise _refused(directory, f"it was compiled for numerics {manifest.get('numerics')!r}, this version has {numerics.VERSION}")
    if manifest.get("platform") not in PLATFORMS or PROGRAM not in manifest.get("files", {}):
        raise _refused(directory, f"{MANIFEST} names no program or no known platform")
    return manifest


def _refused(directory: Path, why: str) -> CallError:
    return CallError(
        "PL608", f"{directory} cannot be loaded: {why}", fix="compile the program again, and save it with compiled.save(directory)"
    )


def _is_inside(directory: Path, file: Path) -> bool:
    return directory.resolve() in file.resolve().parents


def _canonical(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
