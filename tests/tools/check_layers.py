#!/usr/bin/env python3
"""Holds src/ to its architecture.

Reads adaptra_library(<folder> LAYER n ... USES ...) of every src/<folder>/CMakeLists.txt, in the order of
src/CMakeLists.txt, and fails where
  - a folder uses one that is not above it in that list, or that lies on a higher layer;
  - a source includes the header of a folder that its library does not name in USES;
  - a foreign header is included outside the folders that own it.
"""
import pathlib
import re
import sys

OWNERS = {  # foreign header (regular expression) -> folders (prefixes) that may include it
    r"ucp/|uct/|ucs/": ["transport/ucx"],
    r"mpi\.h": ["mpi/", "transport/", "checkpoint/", "h5/"],
    r"hdf5\.h": ["h5/"],
    r"toml": ["deck/"],
    r"Kokkos_|dnnl|cublas|cuda": ["device/", "model/", "pipeline/"],
}
# Rules beyond the order of the layers: what a folder must never include.
FORBIDDEN = {"detector": ["faults"], "adapt": ["faults", "model", "device", "transport"], "plan": ["faults"]}


def main(root: pathlib.Path) -> int:
    src = root / "src"
    order = re.findall(r"^\s*add_subdirectory\((\w+)\)", (src / "CMakeLists.txt").read_text(), re.M)
    layer, uses, problems = {}, {}, []
    for folder in order:
        text = (src / folder / "CMakeLists.txt").read_text()
        call = re.search(r"adaptra_library\(\s*" + folder + r"\s+LAYER\s+(\d)(.*?)\)", text, re.S)
        if not call:
            problems.append(f"src/{folder}/CMakeLists.txt: no adaptra_library({folder} LAYER n ...)")
            continue
        layer[folder] = int(call.group(1))
        named = re.search(r"\bUSES\s+(.*?)(?=\b[A-Z_]{3,}\b|$)", call.group(2), re.S)
        uses[folder] = named.group(1).split() if named else []
        for used in uses[folder]:
            if used not in layer:
                problems.append(f"src/{folder}: uses {used}, which is not above it in src/CMakeLists.txt")
            elif layer[used] > layer[folder]:
                problems.append(f"src/{folder} (layer {layer[folder]}): uses {used} (layer {layer[used]})")
            if used in FORBIDDEN.get(folder, []):
                problems.append(f"src/{folder}: must never use {used}")
    for directory in sorted(p.name for p in src.iterdir() if p.is_dir()):
        if directory not in order:
            problems.append(f"src/{directory}: not listed in src/CMakeLists.txt")

    for path in sorted(p for p in src.rglob("*") if p.suffix in (".hpp", ".cpp", ".in")):
        inside = path.relative_to(src).as_posix()
        folder = inside.split("/")[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not found:
                continue
            header = found.group(2)
            target = header.split("/")[0]
            if found.group(1) == '"':
                if target in order and target != folder and target not in uses.get(folder, []):
                    problems.append(f"src/{inside}:{number}: includes {header}, but {folder} does not use {target}")
                elif target not in order:
                    problems.append(f'src/{inside}:{number}: "{header}" is not a header of src/')
                continue
            for pattern, owners in OWNERS.items():
                if re.match(pattern, header) and not any(inside.startswith(o) for o in owners):
                    problems.append(f"src/{inside}:{number}: <{header}> belongs to {', '.join(owners)}")

    for problem in problems:
        print(problem)
    if not problems:
        print(f"layers: {len(order)} folders, no violation")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
