"""`tp-opt --show-rules` writes the op table, with --markdown for the docs."""

import re
import sys

import zoo

TP_OPT = zoo.BIN / "tp-opt"
CELL = re.compile(r"(?<!\\)\|")  # a bar that is no text


def markdown_rows(text):
    return [[cell.strip() for cell in CELL.split(line)[1:-1]]
            for line in text.splitlines()]


def main():
    plain = zoo.run(TP_OPT, "--show-rules")
    heading, line, *rows = markdown_rows(
        zoo.run(TP_OPT, "--show-rules", "--markdown"))
    assert heading == ["op", "rule", "partial", "saves", "traits"], heading
    assert line == ["---"] * len(heading), line
    for row in rows:
        assert len(row) == len(heading), f"not a row of the table: {row}"
    table = {row[0]: row[1:] for row in rows}
    assert len(table) == len(rows) > 300, len(rows)
    assert list(table) == sorted(table)
    assert list(table) == [text.split()[0]
                           for text in plain.splitlines()[1:]]
    assert table["aten.mm"] == ["`m k+, k+ n -> m n`", r"`0\|1`", "0,1", ""]
    assert table["aten.embedding"][0] == "`v+ h, ... -> ... h`"
    assert table["aten.linear"][0] == "`... k+, n k+ -> ... n`"
    assert table["aten.view"][3] == "view"
    print(f"{len(rows)} rows")


if __name__ == "__main__":
    sys.exit(main())
