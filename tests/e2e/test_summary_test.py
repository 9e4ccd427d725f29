"""The count on the last line of tools/test is true."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SUMMARY = Path(os.environ["TP_SOURCE_DIR"]) / "tools/test_summary.py"

GTEST_OK = """[==========] Running 3 tests from 1 test suite.
a_test.cc:3: Skipped
no MPI here
[  SKIPPED ] A.B (0 ms)
[==========] 3 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] A.B
"""
GTEST_BAD = """[==========] Running 3 tests from 1 test suite.
[==========] 3 tests from 1 test suite ran. (0 ms total)
[  PASSED  ] 1 test.
[  FAILED  ] 2 tests, listed below:
"""
GTEST_CRASH = "[==========] Running 3 tests from 1 test suite.\n"


def case(name, status, output, more=""):
    return (f'<testcase name="{name}" status="{status}">{more}'
            f"<system-out>{output}</system-out></testcase>")


class SummaryTest(unittest.TestCase):
    def summarize(self, *cases, unbuilt=()):
        with tempfile.TemporaryDirectory() as folder:
            text = "<testsuite>" + "".join(cases) + "</testsuite>"
            (Path(folder) / "dev.xml").write_text(text)
            for name in unbuilt:
                (Path(folder) / f"{name}.unbuilt").touch()
            result = subprocess.run([sys.executable, str(SUMMARY), folder],
                                    capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def test_counts_tests_inside_binaries(self):
        code, lines = self.summarize(
            case("unit.a", "run", GTEST_OK), case("e2e.b", "run", "fine"),
            case("e2e.c", "notrun", "starting\nneeds mpirun\n",
                 "<skipped/>"))
        self.assertEqual(code, 0)
        self.assertEqual(lines[-1], "3 passed, 0 failed, 2 skipped")
        self.assertIn("skipped (dev) unit.a: A.B: no MPI here", lines)
        self.assertIn("skipped (dev) e2e.c: needs mpirun", lines)

    def test_failures_crashes_and_failed_builds(self):
        code, lines = self.summarize(
            case("unit.a", "fail", GTEST_BAD, "<failure/>"),
            case("unit.b", "fail", GTEST_CRASH, "<failure/>"),
            case("e2e.c", "fail", "Traceback", "<failure/>"),
            unbuilt=["asan"])
        self.assertEqual(code, 1)
        self.assertEqual(lines[-1], "1 passed, 5 failed, 0 skipped")

    def test_nothing_run_is_a_failure(self):
        code, lines = self.summarize()
        self.assertEqual(code, 1)
        self.assertEqual(lines[-1], "0 passed, 0 failed, 0 skipped")


if __name__ == "__main__":
    unittest.main()
