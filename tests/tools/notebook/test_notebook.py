"""Notebooks: what read shows of their cells, and what edit changes in the file."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Image, Result, Text
from handrail.tools import Workspace
from tools.stage import results, rounds, toolset

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgAAAAAgABXl7SxgAAAABJRU5ErkJggg=="
)


def cell(source: object, *outputs: object, kind: str = "code", **others: object) -> dict[str, Any]:
    code = {"execution_count": None, "outputs": [*outputs]} if kind == "code" else {}
    return {"cell_type": kind, **others, "metadata": {}, **code, "source": source}


def stream(*lines: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": [*lines]}


def shows(**data: object) -> dict[str, Any]:
    named = {kind.replace("_", "/"): content for kind, content in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": named}


def notebook(*cells: object, **options: Any) -> str:
    document = {"cells": [*cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, **{"indent": 1, "ensure_ascii": False, **options}) + "\n"


SALES = notebook(
    cell(["# Sales\n", "\n", "Weekly “totals”."], kind="markdown", id="t-1"),
    cell(["import os\n", "total = sum(x)\n", "print(total)"], stream("total = sum(x)\n"), id="?"),
    cell("print(total)\nx = [1]\n"),
)


def run(root: Path, tool: str, content: str | bytes, **args: Any) -> Result:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    (root / "n.ipynb").write_bytes(data)
    [done] = results(toolset(Workspace(root)), (tool, {"file_path": "n.ipynb", **args}))
    return done


def edited(root: Path, content: str, old: str, new: str, **args: Any) -> tuple[str, str]:
    """What is said, and what the file holds then."""
    said = run(root, "edit", content, old_string=old, new_string=new, **args).text
    return said, (root / "n.ipynb").read_bytes().decode("utf-8", "surrogatepass")


def test_a_notebook_is_shown_as_its_cells(tmp_path: Path) -> None:
    assert run(tmp_path, "read", SALES).text == snapshot(f"""\
     1	[cell 1, markdown, id t-1]
     2	# Sales
     3	{""}
     4	Weekly “totals”.
     5	[cell 2, code]
     6	import os
     7	total = sum(x)
     8	print(total)
     9	[output]
    10	| total = sum(x)
    11	[cell 3, code]
    12	print(total)
    13	x = [1]
    14	\
""")


def test_outputs_are_short_and_without_base64(tmp_path: Path) -> None:
    image = base64.encodebytes(PNG).decode()
    failed = {
        "output_type": "error",
        "ename": "E",
        "traceback": ["\x1b[31mone\x1b[0m\ntwo", "E: x"],
    }
    long = {"output_type": "error", "traceback": [f"frame {n}" for n in range(30)]}
    done = run(
        tmp_path,
        "read",
        notebook(
            cell("plot()", shows(image_png=image, text_plain=["<Figure>"]), failed),
            cell("many()", stream(*(f"{n}\n" for n in range(25))), long),
            cell(
                "others()",
                shows(text_plain=["[1,\n", " 2]"], text_html="<p>"),
                shows(text_html=["<b>", "</b>"], **{"bad\nkind": 3}),
                stream("tqdm 1%\rtqdm 2%\n", "lone \ud800\n"),
            ),
            cell("quiet()", stream(), {"output_type": "stream"}, 5),
            ensure_ascii=True,
        ),
    )

    assert done.text == snapshot("""\
     1	[cell 1, code]
     2	plot()
     3	[output]
     4	| [image/png, 70 bytes]
     5	| one
     6	| two
     7	| E: x
     8	[cell 2, code]
     9	many()
    10	[output]
    11	| 0
    12	| 1
    13	| 2
    14	| 3
    15	| 4
    16	| 5
    17	| 6
    18	| 7
    19	| 8
    20	| 9
    21	| 10
    22	| 11
    23	| 12
    24	| 13
    25	| 14
    26	| 15
    27	| 16
    28	| 17
    29	| 18
    30	| 19
    31	| [5 more lines]
    32	| [10 more lines]
    33	| frame 10
    34	| frame 11
    35	| frame 12
    36	| frame 13
    37	| frame 14
    38	| frame 15
    39	| frame 16
    40	| frame 17
    41	| frame 18
    42	| frame 19
    43	| frame 20
    44	| frame 21
    45	| frame 22
    46	| frame 23
    47	| frame 24
    48	| frame 25
    49	| frame 26
    50	| frame 27
    51	| frame 28
    52	| frame 29
    53	[cell 3, code]
    54	others()
    55	[output]
    56	| [1,
    57	|  2]
    58	| [text/html, 7 bytes]
    59	| [unknown type, 0 bytes]
    60	| tqdm 1%
    61	| tqdm 2%
    62	| lone ?
    63	[cell 4, code]
    64	quiet()\
""")
    assert done.content == (Text(done.text), Image(PNG, "image/png"))


@pytest.mark.parametrize(
    "data",
    ["not base64!", "a", base64.b64encode(b"plain text").decode(), "A" * 1_000_001],
    ids=["no base64", "cut off", "no image", "too large"],
)
def test_an_image_that_models_cannot_take_is_named_only(tmp_path: Path, data: str) -> None:
    done = run(tmp_path, "read", notebook(cell("", shows(image_png=data))))

    named = f"     4\t| [image/png, {len(data) * 3 // 4:,} bytes]"
    assert done.content == (Text(f"     1\t[cell 1, code]\n     2\t\n     3\t[output]\n{named}"),)


def test_only_the_first_images_of_the_page_are_returned(tmp_path: Path) -> None:
    image = base64.b64encode(PNG).decode()
    text = notebook(*(cell(f"plot({n})", shows(image_png=image)) for n in range(6)))

    def count(**args: Any) -> int:
        done = run(tmp_path, "read", text, **args)
        return sum(isinstance(part, Image) for part in done.content)

    assert (count(), count(limit=4), count(limit=3), count(offset=5, limit=8)) == (4, 1, 0, 2)


PLAIN = {
    "an older format": '{"worksheets": [{"cells": []}], "nbformat": 3}',
    "no cells": notebook(),
    "no format": '{"cells": []}',
    "a list": "[]",
    "cells by name": '{"cells": {}, "nbformat": 4}',
    "a cell that is a number": notebook(5),
    "no source": '{"cells": [{"cell_type": "code"}], "nbformat": 4}',
    "a source of numbers": notebook(cell([1])),
    "a number as source": notebook(cell(1)),
    "an unknown kind": notebook(cell("x", kind="heading")),
    "two sources": '{"cells": [{"cell_type": "raw", "source": "x", "source": "x"}], "nbformat": 4}',
    "half a character": notebook(cell("x"), cell("\ud800"), ensure_ascii=True),
    "a NUL": notebook(cell("x\0")),
    "deep JSON": '{"cells": [], "nbformat": 4, "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "many cells": notebook(*[cell("x", kind="raw")] * 20_000, indent=None),
    "no JSON": "x\n",
    "half of it": SALES[:300],
    "a huge number": '{"cells": [], "nbformat": ' + "4" * 5_000 + "}",
}


@pytest.mark.parametrize("content", PLAIN.values(), ids=PLAIN)
def test_everything_else_is_plain_text(tmp_path: Path, content: str) -> None:
    shown = run(tmp_path, "read", content, limit=1).text.splitlines()

    first = content.splitlines()[0]
    assert shown[0][:100] == f"     1\t{first}"[:100]
    assert (
        shown[-1]
        == "[This is not a notebook of format 4, or too large for one: it is shown as plain text.]"
    )
    assert edited(tmp_path, content, content[:12], "!")[1] == "!" + content[12:]


def test_another_encoding_is_plain_text(tmp_path: Path) -> None:
    data = SALES.encode("utf-16")

    assert run(tmp_path, "read", data, limit=1).text.splitlines()[0] == "     1\t{"
    assert run(tmp_path, "edit", data, old_string="# Sales\\n", new_string="#").text == (
        "Edited 'n.ipynb', line 8."
    )


def test_a_very_large_notebook_is_plain_text(tmp_path: Path) -> None:
    large = notebook(cell(["x = 1\n", "y"]), cell("#" * 16 * 1024 * 1024))

    assert edited(tmp_path, large, '"x = 1\\n",', '"x = 2\\n",') == (
        "Edited 'n.ipynb', line 9.",
        large.replace("x = 1", "x = 2"),
    )


def test_an_edit_changes_the_source_of_one_cell(tmp_path: Path) -> None:
    said, text = edited(tmp_path, SALES, "total = sum(x)", 'total = sum(x, "é")\n\t# \\n')

    assert said == "Edited 'n.ipynb', lines 7-8. In cell 2."
    assert text == SALES.replace(
        '"total = sum(x)\\n",\n    "print',
        '"total = sum(x, \\"é\\")\\n",\n    "\\t# \\\\n\\n",\n    "print',
    )


def test_copied_line_numbers_are_accepted(tmp_path: Path) -> None:
    old, new = "     6\timport os\n     7\ttotal = sum(x)", "     6\timport sys"

    said, text = edited(tmp_path, SALES, old, new)
    assert said == "Edited 'n.ipynb', line 6. In cell 2. Line numbers were removed."
    assert json.loads(text)["cells"][1]["source"] == ["import sys\n", "print(total)"]


def test_a_line_break_after_a_source_may_be_quoted(tmp_path: Path) -> None:
    text = notebook(cell("x = 1"), cell("y = 1"))

    assert edited(tmp_path, text, "x = 1\n", "x = 2\n") == (
        "Edited 'n.ipynb', line 2. In cell 1.",
        text.replace("x = 1", "x = 2"),
    )


def test_an_edit_that_fails_names_the_cells(tmp_path: Path) -> None:
    tried = [
        ("print(total)", "print(1)"),
        ("import", "import"),
        ("totl = sum(x)", "x"),
        ("code", "x"),
        ("[cell 3, code]\nprint(total)", "x"),
        ("x = [1]\n\n", "x = [2]"),
        ("\nimport os", "import sys"),
        ("", "x"),
    ]

    outcomes = [edited(tmp_path, SALES, old, new) for old, new in tried]
    assert [text for _, text in outcomes] == [SALES] * len(tried)
    assert [said for said, _ in outcomes] == snapshot(
        [
            """\
old_string is in the file 2 times, at lines 8, 12. Add lines around the one you mean, or set replace_all to change them all.
[In cells 2 and 3.]\
""",
            "old_string and new_string are the same: nothing would change.",
            """\
old_string is not in the file. The closest text is at line 7. Line by line:
yours        |totl = sum(x)
 file      7 |total = sum(x)
Copy old_string exactly from the file.
[In cell 2. Only the source of cells is searched.]\
""",
            """\
old_string is not in the file, and nothing is similar. Read the file again.
[Only the source of cells is searched.]\
""",
            """\
old_string is not in the file, and nothing is similar. Read the file again.
[Only the source of cells is searched.]\
""",
            "old_string goes beyond the source of one cell. Pass text within a cell: without the lines in brackets, outputs, and line breaks around the source.",
            "old_string goes beyond the source of one cell. Pass text within a cell: without the lines in brackets, outputs, and line breaks around the source.",
            "old_string is empty. To insert text, pass a line next to it as old_string and repeat that line in new_string. To write the whole file, use write.",
        ]
    )


def test_every_occurrence_is_replaced_in_every_cell(tmp_path: Path) -> None:
    text = notebook(*(cell(["x = 1\n", "y"]) for _ in range(12)))

    said, after = edited(tmp_path, text, "x = 1", "x = 2", replace_all=True)
    assert said == snapshot(
        "Edited 'n.ipynb', lines 2, 5, 8, 11, 14 and 7 more. In cells 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more."
    )
    assert after == text.replace("x = 1", "x = 2")


def test_several_edits_are_applied_in_order(tmp_path: Path) -> None:
    more = [{"old_string": "x = [1]", "new_string": "x = [2]"}]
    said, after = edited(tmp_path, SALES, "import os", "import os\nimport sys", edits=more)

    assert said == snapshot("""\
Edited 'n.ipynb', 2 replacements:
1. lines 6-7. In cell 2.
2. line 14. In cell 3.\
""")
    changed = SALES.replace("x = [1]", "x = [2]")
    assert after == changed.replace('"import os\\n"', '"import os\\n",\n    "import sys\\n"')


def test_a_source_can_become_empty_and_a_single_line_can_become_two(tmp_path: Path) -> None:
    text = notebook(cell(["x"]), cell(["y = 1"]), indent=None)

    assert edited(tmp_path, text, "x", "")[1] == text.replace('["x"]', "[]")
    assert edited(tmp_path, text, "y = 1", "y = 1\nz")[1] == (
        text.replace('["y = 1"]', '["y = 1\\n","z"]')
    )


def test_unchanged_lines_keep_their_escapes_and_new_ones_follow_the_file(tmp_path: Path) -> None:
    text = notebook(cell(["a = 'é'\n", "b/c\n", "d"]), ensure_ascii=True).replace("b/c", "b\\/c")

    said, after = edited(tmp_path, text, "d", "d = 'ü'")
    assert said == "Edited 'n.ipynb', line 4. In cell 1."
    assert after == text.replace('"d"', "\"d = '\\u00fc'\"")


def test_a_byte_order_mark_and_line_endings_are_kept(tmp_path: Path) -> None:
    text = "\ufeff" + SALES.replace("\n", "\r\n")

    assert edited(tmp_path, text, "import os", "import re") == (
        "Edited 'n.ipynb', line 6. In cell 2.",
        text.replace("import os", "import re"),
    )


def test_a_source_with_every_character_for_private_use_is_plain_text(tmp_path: Path) -> None:
    text = notebook(cell(["x\n", "".join(map(chr, range(0xF0000, 0xFFFFE)))]))

    assert edited(tmp_path, text, '"x\\n",', '"y\\n",') == (
        "Edited 'n.ipynb', line 9.",
        text.replace('"x', '"y'),
    )


_TEXT = st.text(st.sampled_from('ab =\n\t"\\é“\u2028😀<>[cell1,\x1b'), max_size=30)
_SOURCES = st.one_of(_TEXT, _TEXT.map(lambda text: text.splitlines(keepends=True)))
_OUTPUTS = st.lists(st.builds(stream, _TEXT), max_size=2)
_CELLS = st.builds(lambda source, outputs: cell(source, *outputs, id="c1"), _SOURCES, _OUTPUTS)
_FORMS = st.fixed_dictionaries(
    {"indent": st.sampled_from([None, 1, 4, "\t"]), "ensure_ascii": st.booleans()}
)


def whole(source: str | Sequence[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def find_all(text: str, cells: list[dict[str, Any]]) -> list[int]:
    """Where a text is in the sources; places may overlap."""
    sources = [whole(one["source"]) for one in cells]
    return [at for source in sources for at in range(len(source)) if source.startswith(text, at)]


@settings(max_examples=rounds(60, 2_000), deadline=None)
@given(cells=st.lists(_CELLS, min_size=1, max_size=4), form=_FORMS, new=_TEXT, data=st.data())
def test_an_edit_replaces_a_part_of_one_source_and_no_other_byte(
    cells: list[dict[str, Any]], form: dict[str, Any], new: str, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(cells) - 1))
    source = whole(cells[number]["source"])
    start = data.draw(st.integers(0, len(source)))
    old = source[start : data.draw(st.integers(start, len(source)))]
    assume(len(find_all(old, cells)) == 1 and old != new and old not in new)
    text = notebook(*cells, **form)
    with tempfile.TemporaryDirectory() as folder:
        said, after = edited(Path(folder), text, old, new)

    assert said.startswith("Edited 'n.ipynb', line")
    assert whole(json.loads(after)["cells"][number]["source"]) == source.replace(old, new)
    target = json.loads(text)["cells"][number]
    other = json.loads(after)
    other["cells"][number]["source"] = target["source"]
    assert notebook(*other["cells"], **form) == text
