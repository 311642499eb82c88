"""The site of documents, in English and Chinese: `python scripts/docs.py` writes it to build/site (`make docs`).

The pages are those of docs/ and docs/zh; pages of commands and of methods come from the code, the Python reference
from docstrings. Chinese pages of methods are made of docs/zh/summaries.md and of what needs no language: formulas,
calls, the table of options. Chinese pages of figures have the tables of the English ones. Formulas become MathML,
which browsers draw by themselves.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
from latex2mathml.converter import convert
from readme import options

from polyseme.catalog import METHODS, find
from polyseme.cli.main import COMMANDS, polyseme

ROOT = Path(__file__).resolve().parents[1]
DOCS, BUILD = ROOT / "docs", ROOT / "build"
SUMMARIES = "summaries.md"
KINDS = {
    "words": ("Words", "词向量"),
    "contexts": ("Words in context", "语境向量"),
    "sentences": ("Sentences", "句向量"),
}
# What a Chinese page of figures takes from the English one: headings, commands, tables.
KEPT = re.compile(r"^#{2,} [^\n]+$|^```sh\n.*?^```$|<!-- ([\w-]+) -->\n.*?<!-- /\1 -->", re.DOTALL | re.MULTILINE)
# Headings of the pages of figures.
HEADINGS = {
    "Speed": "速度",
    "Defaults": "默认参数",
    "All methods for the same time": "所有方法，相同时间",
    "Rare words": "低频词",
    "Perplexity of NNLM and of n-grams": "NNLM 与 n-gram 的困惑度",
    "The dimension chosen by the PIP loss": "PIP 损失选出的维数",
    "Readers of the biLM": "双向语言模型的阅读器",
    "By signal: the order of sentences, labels, words": "按信号：句序、标签、词",
    "Conversation": "对话",
    "Inference": "推断",
    "Sentence similarity": "句子相似度",
    "Words in context": "语境词义",
    "Speed of pooled word vectors": "池化词向量的速度",
    "doc2vec compared with gensim": "doc2vec 与 gensim 对照",
    "Search among many short texts": "大量短文本中的检索",
    "Standard data sets": "标准数据集",
    "Where ELMo is added": "ELMo 接在哪里",
    "TextCNN, one hyperparameter varied at a time": "TextCNN：每次只变一个超参数",
    "Fine-tuning": "微调",
    "Speed of fine-tuning": "微调的速度",
    "Pretraining compared with Trainer": "预训练与 Trainer 对照",
    "Few labels": "标注很少时",
    "How much of the encoder is fine-tuned": "微调编码器的多少层",
    "Share of masked tokens": "掩码比例",
    "BERT beside ELMo": "BERT 与 ELMo 对照",
    "Translations found by XLM": "XLM 找到的译文",
    "cw2vec compared with word2vec": "cw2vec 与 word2vec 对照",
}
CHINESE_COMMANDS = {
    "corpus": "由文本建立语料。",
    "info": "查看文本、语料或模型。",
    "train": "在语料或文本上训练一种方法。",
    "neighbours": "近邻词。",
    "similarity": "两个词或两段文本有多相似。",
    "analogy": "A 之于 B，如同 C 之于什么？",
    "encode": "逐行给出词在语境中的向量。",
    "fill": "语言模型在某个位置预测的词。",
    "follows": "判断一段文本是否接在另一段之后。",
    "generate": "用语言模型续写文本。",
    "translate": "译成另一种语言。",
    "fit": "用标注样本训练任务：分类、文本对、标注、阅读理解、多项选择。",
    "predict": "用任务模型预测文本的标签。",
    "score": "在标注样本上评测任务模型。",
    "evaluate": "相似度、类比等测试文件，按内容识别。",
    "compare": "在同样的文件上比较模型或方法：一张表，一张图。",
    "dimension": "语料适合多少维。",
    "distil": "由语境编码器得到词向量。",
    "convert": "与公开格式互相转换。",
    "index": "索引每个词的每一处。",
    "concordance": "字符串、正则表达式或词语及其上下文。",
    "uses": "一个词的用法，或用法相同的各处。",
    "search": "对行或文档做语义检索或关键词检索。",
    "plot": "画图：词图、训练曲线、词的用法。",
    "demo": "用真实语料演示全部功能，几分钟。",
    "serve": "网页与 HTTP 接口。",
    "methods": "列出全部方法。",
}
TITLES = {
    "results-words.md": "词向量的测量结果",
    "results-contexts.md": "语境向量的测量结果",
    "results-transformers.md": "Transformer 的测量结果",
    "results-sentences.md": "句向量的测量结果",
    "results-encoders.md": "可学习句编码器的测量结果",
    "results-tasks.md": "下游任务的测量结果",
    "results-transfer.md": "迁移的测量结果",
}


def pages(language: str, target: Path) -> None:
    """Every page of one language."""
    chinese = language == "zh"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("zh"))
    shutil.copy(ROOT / "CHANGELOG.md", target / "changelog.md")
    if chinese:
        shutil.copytree(DOCS / "zh", target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(SUMMARIES))
        for name, text in {**chinese_methods(), **chinese_figures()}.items():
            (target / name).write_text(text, encoding="utf-8")
    (target / "methods" / "index.md").write_text(methods_page(chinese), encoding="utf-8")
    folder = target / "commands"
    folder.mkdir()
    for name, text in command_pages(chinese).items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    for page in target.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(with_formulas(with_tables(text)), encoding="utf-8")


# ---- what the Chinese pages take from the English ones


def summaries() -> dict[str, str]:
    """What docs/zh says of each method."""
    text = (DOCS / "zh" / SUMMARIES).read_text(encoding="utf-8")
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in text.split("\n## ")[1:]}


def chinese_methods() -> dict[str, str]:
    """A page for each method: what it is, when to use it, what else is said of it, its formulas, calls and options."""
    found = {}
    for name, summary in summaries().items():
        row, text = find(name), (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
        what, when, *notes = summary.split("\n\n")
        formulas = re.findall(r"\$\$.+?\$\$", text, re.DOTALL)
        calls = re.findall(r"```(?:python|sh)\n.*?```", text, re.DOTALL)[:2]
        paper = [f"论文：{row.paper}（{row.year}）。"] if row.paper else []
        table = options(row, chinese=True)
        rest = f"细节与实测见[英文页](../../methods/{name}.html)。"
        parts = [f"# {name} {row.chinese}", what, *formulas, when, *notes, *paper, *calls, "## 参数", table, rest]
        found[f"methods/{name}.md"] = "\n\n".join(parts) + "\n"
    return found


def chinese_figures() -> dict[str, str]:
    """The pages of figures: headings, commands and tables."""
    pages = {}
    for name, title in TITLES.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        kept = [found[0] for found in KEPT.finditer(text)]
        lines = [re.sub(r"^(#+) (.+)$", lambda m: f"{m[1]} {HEADINGS.get(m[2], m[2])}", part) for part in kept]
        intro = f"每张表都由它上面的命令写出。说明文字见[英文页](../{name[:-3]}.html)。"
        pages[name] = "\n\n".join([f"# {title}", intro, *lines]) + "\n"
    return pages


def with_tables(text: str) -> str:
    """The text with the tables that it takes from English pages: ``<!-- from PAGE: NAME -->``."""

    def table(asked: re.Match[str]) -> str:
        page = (DOCS / asked[1]).read_text(encoding="utf-8")
        return page.split(f"<!-- {asked[2]} -->\n")[1].split(f"<!-- /{asked[2]} -->")[0]

    return re.sub(r"<!-- from (\S+): (\S+) -->", table, text)


# ---- formulas


def with_formulas(text: str) -> str:
    """The text with MathML for ``$$…$$`` and ``$…$``, but for code."""
    pieces = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(piece if place % 2 else _drawn(piece) for place, piece in enumerate(pieces))


def _drawn(text: str) -> str:
    text = re.sub(
        r"\$\$(.+?)\$\$", lambda m: f'\n<div class="formula">{_math(m[1], "block")}</div>\n', text, flags=re.DOTALL
    )
    return re.sub(r"(?<![\w$])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])", lambda m: _math(m[1], "inline"), text)


def _math(tex: str, display: str) -> str:
    for name, known in ((r"\lceil", "⌈"), (r"\rceil", "⌉"), ("{aligned}", "{align*}")):  # by names the converter knows
        tex = tex.replace(name, known)
    return convert(" ".join(tex.split()), display=display)


# ---- pages from the code


def methods_page(chinese: bool) -> str:
    """The catalog, by kind."""
    head = ("方法", "名称", "论文") if chinese else ("method", "Chinese name", "paper")
    lines = ["# 方法" if chinese else "# Methods"]
    for kind, titles in KINDS.items():
        lines += ["", f"## {titles[chinese]}", "", f"| {' | '.join(head)} |", "|---|---|---|"]
        lines += [
            f"| [`{row.name}`]({row.name}.md) | {row.chinese} | {row.paper} ({row.year}) |"
            for row in METHODS
            if row.kind == kind
        ]
    return "\n".join(lines) + "\n"


def command_pages(chinese: bool) -> dict[str, str]:
    """One page for each command, as its --help has it, and the list of them."""
    context = click.Context(polyseme, info_name="polyseme")
    found = {"index": "# 命令\n\n" if chinese else "# Commands\n\n"}
    for name, (_, line) in COMMANDS.items():
        line = CHINESE_COMMANDS[name] if chinese else line
        found["index"] += f"- [`polyseme {name}`]({name if name != 'index' else 'index-command'}.md): {line}\n"
        command = polyseme.get_command(context, name)
        assert command is not None
        text = f"# polyseme {name}\n\n{line}\n"
        for path, one in commands_below(name, command):
            with click.Context(one, info_name=path, parent=context, max_content_width=100) as own:
                text += f"\n## {path}\n\n```text\n{one.get_help(own)}\n```\n" if path != name else help_block(one, own)
        found["index-command" if name == "index" else name] = text
    return found


def help_block(command: click.Command, context: click.Context) -> str:
    """Its help as it is printed."""
    return f"\n```text\n{command.get_help(context)}\n```\n"


def commands_below(path: str, command: click.Command) -> list[tuple[str, click.Command]]:
    """The command, and those of which it is a group, but for the methods of ``train``, whose options have pages."""
    found = [(path, command)]
    if isinstance(command, click.Group) and path != "train":
        with click.Context(command) as context:
            names = command.list_commands(context)
            found += [(f"{path} {name}", one) for name in names if (one := command.get_command(context, name))]
    return found


# ---- from one language to the other


def link_languages(site: Path) -> None:
    """Let the menu of languages lead from a page to the same page, as both have them all."""
    for page in site.rglob("*.html"):
        name = page.relative_to(site / "zh" if (site / "zh") in page.parents else site)
        text = page.read_text(encoding="utf-8")
        for language, root in (("en", site), ("zh", site / "zh")):
            if (root / name).exists():
                there = Path(os.path.relpath(root / name, page.parent)).as_posix()
                text = re.sub(rf'href="[^"]*" hreflang="{language}"', f'href="{there}" hreflang="{language}"', text)
        page.write_text(text, encoding="utf-8")


def main() -> int:
    """Write the pages, then the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages-only", action="store_true", help="write build/docs and no site")
    given = parser.parse_args()
    for language, place in (("en", "."), ("zh", "zh")):
        pages(language, BUILD / "docs" / language)
        if given.pages_only:
            continue
        config = ROOT / "docs" / f"mkdocs.{language}.yml"
        out = BUILD / "site" / place
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(config), "-d", str(out)]
        if done := subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}).returncode:
            return done
    if not given.pages_only:
        link_languages(BUILD / "site")
        print("build/site/index.html; with its search: python -m http.server --directory build/site")
    return 0


if __name__ == "__main__":
    sys.exit(main())
