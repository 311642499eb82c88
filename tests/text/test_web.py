"""HTML files are read as a browser shows them."""

from __future__ import annotations

import gzip

import pytest

from polyseme.data.tables import Lines
from polyseme.errors import TextError
from polyseme.text.corpus import Corpus
from polyseme.text.source import Source, SourceReader

PAGE = """<!doctype html><html><head><meta charset="utf-8"><title>标题</title>
<style>p { color: red }</style><script>if (a < b) document.write("<p>no</p>");</script></head>
<body><!-- a remark --><h1>红楼梦&nbsp;第一回</h1>
<p>他打了个<b>电话</b>，
然后走了。</p><p>A &lt;b&gt; tag &amp; a
long <i>line</i>.<br>Next line</p>
<ul><li>one<li>two</ul><table><tr><td>a</td><td>b</td></tr></table>
<p><ruby>漢<rp>(<rt>kan<rp>)</ruby>字</p><noscript>no</noscript><pre>x = 1
y = 2</pre></body></html>
"""
SHOWN = [
    "红楼梦 第一回", "他打了个电话，然后走了。", "A <b> tag & a long line.", "Next line", "one", "two", "a b", "漢字",
    "x = 1", "y = 2",
]  # fmt: skip


def lines_of(path) -> list[str]:
    return [line for _, line in Lines(SourceReader(Source(str(path))))]


@pytest.mark.parametrize("name", ["page.html", "PAGE.HTM", "page.xhtml", "page.html.gz"])
def test_a_page_is_read_without_its_tags_scripts_and_styles(name, tmp_path):
    data = PAGE.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert lines_of(tmp_path / name) == SHOWN


def test_a_page_in_another_encoding_among_texts_becomes_sentences(tmp_path):
    (tmp_path / "a.txt").write_text("<p>他来了。</p>\n", encoding="utf-8")
    (tmp_path / "b.html").write_bytes("<html><p>他打了个电话。他走了。</p><p>天亮了。</p></html>".encode("gb18030"))
    corpus = Corpus.build(tmp_path, segment="char")
    assert [corpus.text(n) for n in range(corpus.n_sentences)][-3:] == ["他打了个电话。", "他走了。", "天亮了。"]
    assert corpus.text(0) == "<p>他来了。"  # in a file named otherwise tags are text
    assert corpus.n_documents == 2


def test_a_page_cut_anywhere_gives_the_same_lines(tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    for size in (1, 2, 7, 64):
        monkeypatch.setattr("polyseme.text.source.CHUNK", size)
        assert lines_of(tmp_path / "page.html") == SHOWN


def test_a_tag_without_an_end_is_one_line_of_error(tmp_path, monkeypatch):
    monkeypatch.setattr("polyseme.text.source._LONGEST_TAG", 1000)
    (tmp_path / "page.html").write_text("<p>text</p><a href='" + "x" * 5000, encoding="utf-8")
    with pytest.raises(TextError, match="a tag has no end"):
        lines_of(tmp_path / "page.html")
