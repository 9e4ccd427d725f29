"""Adds up the JUnit reports that ctest wrote to one folder.

Tests inside a GoogleTest binary count one by one. Prints why tests were
skipped, and as the last line how many passed, failed and were skipped; exits
with 1 if any failed.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def gtest_count(output, word):
    found = re.search(rf"^\[ +{word} +\] (\d+) tests?", output, re.MULTILINE)
    return int(found.group(1)) if found else 0


def skip_reason(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def gtest_skips(output):
    """(test, reason) of each test that GoogleTest skipped."""
    reason = ""
    lines = output.splitlines()
    for index, line in enumerate(lines):
        if re.search(r": Skipped$", line) and index + 1 < len(lines):
            reason = lines[index + 1].strip()
        found = re.match(r"\[ +SKIPPED +\] (\S+) \(\d+ ms\)", line)
        if found:
            yield found.group(1), reason or "no reason given"
            reason = ""


def count(case):
    """(passed, failed, [(name, skip reason)]) of one ctest entry."""
    name = case.get("name")
    output = case.findtext("system-out") or ""
    status = case.get("status")
    if case.find("skipped") is not None and status != "fail":
        return 0, 0, [(name, skip_reason(output))]
    failed = status != "run"
    if "[==========]" not in output:
        return int(not failed), int(failed), []
    failures = gtest_count(output, "FAILED")
    # A crash or a timeout leaves no count behind.
    if failed and failures == 0:
        failures = 1
    skips = [(f"{name}: {test}", why) for test, why in gtest_skips(output)]
    return gtest_count(output, "PASSED"), failures, skips


def main():
    passed, failed, skipped = 0, 0, []
    for report in sorted(Path(sys.argv[1]).glob("*.xml")):
        sums = [0, 0, 0]
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            ok, bad, skips = count(case)
            sums = [sums[0] + ok, sums[1] + bad, sums[2] + len(skips)]
            skipped += [(report.stem, *skip) for skip in skips]
        print(f"{report.stem}: {sums[0]} passed, {sums[1]} failed, "
              f"{sums[2]} skipped")
        passed, failed = passed + sums[0], failed + sums[1]
    # A build that failed ran no test, which must not look like success.
    for unbuilt in sorted(Path(sys.argv[1]).glob("*.unbuilt")):
        print(f"{unbuilt.stem}: the build failed")
        failed += 1
    for preset, name, reason in skipped:
        print(f"skipped ({preset}) {name}: {reason}")
    print(f"{passed} passed, {failed} failed, {len(skipped)} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
