from __future__ import annotations

from benchmarks.text_table import markdown_table, plain_table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert plain_table(["a", "long header"], [["wider", "x"]]) == "a      long header\n-----  -----------\nwider  x"


def test_a_bar_in_a_cell_opens_no_column_in_markdown() -> None:
    assert markdown_table(["a", "b"], [["x|y", "z"]]) == "| a | b |\n| --- | --- |\n| x\\|y | z |"
