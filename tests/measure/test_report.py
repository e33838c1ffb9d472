"""What a report says of a run, and that no text of a file acts in it."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.goldens.golden_texts import assert_golden
from tests.measure.benchmarks import NOON, SERVER, load, measured, point, run
from tpuflex.measure.plots import plots
from tpuflex.measure.report import Report, report_of
from tpuflex.measure.report_files import write_report
from tpuflex.measure.report_html import report_html
from tpuflex.measure.report_markdown import report_markdown
from tpuflex.measure.run import Point

LOADS = [load(each, context) for context in (128, 8192) for each in (1, 8, 64)]
SHARED = load(8, 8192, shared=4096)
HOSTILE = "<script>alert(1)</script> `|` ![x](https://evil.example/x)\n# h @all \x1b]0;t\x07 \u202e"


def points() -> list[Point]:
    """One of each kind."""
    first, second, third, fourth, _, sixth = map(point, LOADS)
    return [
        first,
        second.model_copy(
            update={
                "verdict": "not_a_result",
                "reasons": (
                    "throughput x latency is 6.1 requests in flight, and 8 were asked for",
                ),
            }
        ),
        third.model_copy(update={"flags": ("2,659 tokens/s are above the 2,000 of the chips",)}),
        fourth.model_copy(update={"verdict": "not_verified", "reasons": ("nobody has looked",)}),
        sixth,
        point(SHARED),
    ]


@pytest.fixture
def report() -> Report:
    """Of a small run, one point of which has not been measured."""
    return report_of(run(*LOADS, SHARED, load(2, 128), name="small"), points())


def test_the_report_says_what_was_measured_and_what_it_is_worth(report: Report) -> None:
    """Facts, a heat map for each quantity, and a reason for each point that is no plain result."""
    assert_golden("measure/report.md", report_markdown([report], "Plots are in `small.html`."))


def test_the_page_has_the_same_in_html(report: Report) -> None:
    """The page of HTML is the one that was looked at."""
    assert_golden("measure/report.html", report_html([report], {}, "There are no plots."))


def test_a_cell_is_never_blank_and_a_figure_only_where_there_is_one(report: Report) -> None:
    """Each kind of point can be told from the others in every heat map."""
    cells = {
        (concurrency, context): cell.text
        for concurrency, row in report.series[0].maps[0].rows
        for context, cell in zip(report.series[0].maps[0].contexts, row, strict=True)
    }

    assert cells == {
        (1, 128): "48.9",
        (2, 128): "not measured",
        (8, 128): "not a result",
        (64, 128): "2,659 *",
        (1, 8192): "47.8 ?",
        (2, 8192): "not asked",
        (8, 8192): "not measured",
        (64, 8192): "not feasible",
    }


def test_prompts_that_share_their_beginning_are_a_series_of_their_own(report: Report) -> None:
    """Their throughput is not beside that of unique prompts."""
    unique, shared = report.series

    assert [each.load.shared for each in unique.points] == [0] * 5
    assert [each.load for each in shared.points] == [SHARED]
    assert shared.title == (
        "Prompts that share their first 4,096 tokens, 128 tokens generated for each"
    )


@dataclass
class Elements(HTMLParser):
    """The elements of a page, and its text."""

    tags: Counter[str] = field(default_factory=Counter)
    attributes: list[tuple[str, str | None]] = field(default_factory=list)
    ids: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count it."""
        self.tags[tag] += 1
        self.attributes += attrs


def hostile() -> Report:
    """A report on a file in which every text would act."""
    server = SERVER.model_copy(
        update=dict.fromkeys(("model", "vllm", "image", "zone", "price_source"), HOSTILE)
        | {"args": (HOSTILE,), "accelerator": HOSTILE}
    )
    bad = Point(
        load=LOADS[0],
        verdict="not_a_result",
        reasons=(HOSTILE,),
        flags=(HOSTILE,),
        measured=measured(LOADS[0]),
        at=NOON,
    )
    return report_of(
        run(*LOADS, name=HOSTILE, server=server).model_copy(
            update={"stack": HOSTILE, "generator": HOSTILE, "command": (HOSTILE,)}
        ),
        [bad, point(LOADS[1])],
    )


def test_no_text_of_a_file_acts_in_html() -> None:
    """Texts are shown; no element, attribute or control character comes of them."""
    report = hostile()
    page = report_html([report], {0: plots(report.series[0].points, "s0")}, "")
    elements = Elements()
    elements.feed(page)

    assert "&lt;script&gt;" in page
    assert not {"script", "img", "link", "iframe", "object", "a"} & elements.tags.keys()
    assert not [name for name, _ in elements.attributes if name in ("src", "onload", "onclick")]
    assert "\x1b" not in page
    assert "\u202e" not in page


def test_no_text_of_a_file_acts_in_markdown() -> None:
    """Whatever a file says stands in code spans, which nothing in them can end."""
    page = report_markdown([hostile()], "")
    outside = re.sub(r"`[^`\n]*`", "", page)

    assert "script" not in outside
    assert "evil.example" not in outside
    assert "@all" not in outside
    assert "\x1b" not in page


def test_a_plot_stands_in_a_page(report: Report) -> None:
    """Plots are well-formed, fetch nothing, and names in one do not reach into another."""
    drawn = [*plots(report.series[0].points, "s0"), *plots(report.series[1].points, "s1")]
    clips: Counter[str] = Counter()
    for plot in drawn:
        root = ElementTree.fromstring(plot.svg)  # noqa: S314 - ours
        clips.update(
            str(each.get("id")) for each in root.iter("{http://www.w3.org/2000/svg}clipPath")
        )

    assert len(drawn) == 10
    assert max(clips.values()) == 1
    assert not [plot for plot in drawn if re.search(r"(href|src)=.(?!#)|url\((?!#)", plot.svg)]
    assert "#00f" not in "".join(plot.svg for plot in drawn)


def test_a_plot_has_a_gap_where_a_point_is_no_result() -> None:
    """A line does not lead across what was not measured well."""
    three = [point(load(each, 128)) for each in (1, 2, 4)]
    three[1] = three[1].model_copy(update={"verdict": "not_a_result"})

    def moves(of: list[Point]) -> list[int]:
        plot = plots(of, "s")[0]
        return [
            path.count("M")
            for path in re.findall(r'<path d="([^"]*)" clip-path[^>]*stroke-width: 1.6', plot.svg)
        ]

    assert moves(three) == [2]
    assert moves([three[0], three[2]]) == [1]


def test_a_report_is_written_beside_its_file(tmp_path: Path) -> None:
    """Two files: Markdown, and HTML with plots."""
    file = tmp_path / "small.jsonl"
    written = run(*LOADS, name="small").model_dump_json()
    file.write_text("".join(f"{line}\n" for line in (written, point(LOADS[0]).model_dump_json())))

    done = write_report([file])

    assert done.to_json() == {
        "runs": [
            {
                "name": "small",
                "id": "small-20261128T120000Z",
                "points": {"results": 1, "not measured": 5},
            }
        ],
        "markdown": str(tmp_path / "small-report.md"),
        "html": str(tmp_path / "small-report.html"),
        "plots": 5,
    }
    assert "Plots are in `small-report.html`." in done.markdown.read_text()
    assert done.html.read_text().count("<svg") == 5


def test_without_what_draws_plots_the_report_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither file fails for want of matplotlib."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    file = tmp_path / "small.jsonl"
    file.write_text(run(*LOADS).model_dump_json() + "\n")

    done = write_report([file], tmp_path / "page")

    assert done.plots == 0
    for page in (done.markdown, done.html):
        assert "pip install" in page.read_text()
