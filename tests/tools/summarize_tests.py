#!/usr/bin/env python3
"""Prints what ran, what was skipped and why, per label, for build folders that hold a junit.xml of CTest.
Fails where a label that must run here (EXPECTED) ran nothing, or where a test failed."""
import collections
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

EXPECTED = {"release": ["unit", "mpi"], "asan": ["unit"], "tsan": ["unit"]}


def labels_of(build: pathlib.Path) -> dict:
    listing = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                             capture_output=True, text=True, check=True).stdout
    labels = {}
    for test in json.loads(listing)["tests"]:
        values = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        labels[test["name"]] = values[0] if values else ["unlabelled"]
    return labels


def main(builds) -> int:
    bad = 0
    totals = collections.Counter()
    for build in map(pathlib.Path, builds):
        labels = labels_of(build)
        counts = collections.defaultdict(collections.Counter)
        skipped = []
        for case in xml.parse(build / "junit.xml").getroot().iter("testcase"):
            state = {"run": "passed", "fail": "failed"}.get(case.get("status"), "skipped")
            output = case.findtext("system-out") or ""
            # GoogleTest prints "<file>:<line>: Skipped" and the reason on the next line.
            reasons = [m.strip() for m in re.findall(r": Skipped\n(.*)", output)]
            if state == "skipped":
                message = case.find("skipped")
                reasons = reasons or [message.get("message", "") if message is not None else ""]
            skipped += [f"{case.get('name')}: {reason}" for reason in dict.fromkeys(reasons)]
            totals[state] += 1
            for label in labels.get(case.get("name"), ["unlabelled"]):
                counts[label][state] += 1
        print(f"{build.name}:")
        for label, count in sorted(counts.items()):
            print("  {:<12} passed {:>3}  failed {:>3}  skipped {:>3}".format(
                label, count["passed"], count["failed"], count["skipped"]))
        for line in skipped:
            print(f"  skipped: {line}")
        for label in EXPECTED.get(build.name, []):
            if counts[label]["passed"] == 0:
                print(f"  error: label {label} ran nothing in {build.name}")
                bad = 1
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 1 if bad or totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
