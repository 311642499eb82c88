// A string, an expression or words in their contexts: lines sorted by what stands beside, collocates, figures, export.

import { get } from "../api.js";
import { arrowKeys, fill, h } from "../dom.js";
import { exportButtons, hitRow, pagesOf } from "../export.js";
import { choice, empty, hitLink, indexOf, kwic, moreButton, segmented, tagLegend, waiting } from "../parts.js";
import { go, link } from "../router.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme corpus TEXT -o corpus\npolyseme serve corpus";
const PAGE = 50;
const SORTS = ["order", "left", "right", "match", "random"];
const MODES = ["text", "regex", "words"];
const SCORES = ["loglik", "logdice", "mi", "count"];

export async function render(root, state, { library, signal }) {
  const texts = library.items.filter((item) => item.kind === "index" || item.kind === "corpus");
  if (!texts.length) {
    fill(root, h("h1", {}, t("concordance")), empty(t("emptyCorpus"), COMMAND));
    return;
  }
  const text = texts.find((item) => item.name === state.corpus) ?? texts[0];
  const asked = { query: state.query, mode: MODES.includes(state.mode) ? state.mode : "text", tag: state.tag || undefined };
  const sort = SORTS.includes(state.sort) ? state.sort : "order";
  const part = state.part === "collocates" ? "collocates" : "lines";
  const at = (changes) => ({ ...state, corpus: text.name, ...changes });
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const query = form.get("query").trim();
    if (query) go("concordance", at({ query, tag: form.get("tag")?.trim() }));
  };
  const answer = h("div", { class: "concordance-answer" });
  fill(root, h("h1", { class: "unseen" }, t("concordance")),
    h("form", { class: "ask", onsubmit: submit },
      h("label", { class: "field big" }, h("span", {}, t("query")), h("input", { id: "query", name: "query", value: state.query ?? "",
        placeholder: t("concordanceHint"), autocomplete: "off", spellcheck: "false", maxlength: 500 })),
      h("button", { class: "primary" }, t("show")),
      choice({ id: "mode", label: t("mode"), value: asked.mode, options: MODES.map((mode) => [mode, t(`mode_${mode}`)]),
        onchange: (mode) => go("concordance", at({ mode })) }),
      text.tagged && h("label", { class: "field narrow" }, h("span", {}, t("tagFilter")),
        h("input", { id: "tag", name: "tag", value: state.tag ?? "", placeholder: t("tagHint"), autocomplete: "off", maxlength: 40 })),
      texts.length > 1 && choice({ id: "corpus", label: t("corpusLabel"), value: text.name, options: texts.map((i) => [i.name, i.name]),
        onchange: (name) => go("concordance", at({ corpus: name, tag: texts.find((i) => i.name === name).tagged ? state.tag : undefined })) })),
    answer);
  if (!state.query) {
    fill(answer, h("p", { class: "soft hint" }, t("modeHelp")), text.examples?.length > 0 && h("section", { class: "examples" }, h("h2", {}, t("tryOne")),
      h("p", {}, text.examples.map((query) => h("a", { href: link("concordance", at({ query })) }, query)))));
    return;
  }
  fill(answer, waiting());
  const question = { corpus: text.name, ...asked };
  const found = await get("/api/concordance", { ...question, sort, limit: PAGE }, signal).finally(() => fill(answer));
  fill(answer, figures(found),
    h("div", { class: "ask" },
      segmented({ id: "part", label: t("show"), value: part, options: [["lines", t("lines")], ["collocates", t("collocates")]],
        onchange: (next) => go("concordance", at({ part: next })) }),
      part === "lines"
        ? choice({ id: "sort", label: t("sortBy"), value: sort, options: SORTS.map((key) => [key, t(`sort_${key}`)]),
          onchange: (next) => go("concordance", at({ sort: next }), { replace: true }) })
        : choice({ id: "window", label: t("window"), value: state.window ?? 5, options: [1, 2, 3, 5, 10].map((n) => [n, t("windowOf", n)]),
          onchange: (window) => go("concordance", at({ window }), { replace: true }) })));
  if (part === "lines") lines(answer, found, question, sort, text, indexOf(library, text), signal);
  else await near(answer, question, at, state, signal);
}

function figures(found) {
  const most = Math.max(1, ...found.parts);
  return h("section", { class: "figures" },
    h("p", {}, h("strong", {}, found.count === 1 ? t("oneHit") : t("hitsFound", number(found.count))), " · ",
      t("perMillion", number(found.per_million, 1)),
      found.of_documents > 1 && [" · ", t("inDocuments", number(found.documents), number(found.of_documents))],
      found.dispersion !== null && [" · ", h("span", { title: t("dispersionHelp") }, t("dispersion", found.dispersion.toFixed(2)))]),
    found.count > 0 && h("div", { class: "spread", role: "img", "aria-label": `${t("spread")}: ${found.parts.join(", ")}`, title: t("spread") },
      found.parts.map((n) => h("span", { vars: { "--share": n / most } }))));
}

// A hit leads on to what is used alike, where the text has an index.
function lines(root, found, question, sort, text, index, signal) {
  const list = arrowKeys(h("ul", { class: "hits", id: "lines" }));
  const shown = h("span", { class: "soft" });
  const legend = h("div");
  const tags = [];
  const add = (page) => {
    list.append(...page.map((line) => kwic(line, { href: index && hitLink(index.name, line), score: false, source: true })));
    tags.push(...page.map((line) => line.tag));
    const n = list.children.length;
    if (found.count) fill(shown, t("shownOf", number(n), number(found.count)));
    more.element.hidden = n >= found.count;
    fill(legend, tagLegend(text, tags));
  };
  const more = moreButton(async () => {
    add((await get("/api/concordance", { ...question, sort, limit: PAGE, offset: list.children.length }, signal)).lines);
  });
  const row = (line) => ({ document: line.document, source: line.source, sentence: line.sentence, tag: line.tag, before: line.before, ...hitRow(line), behind: line.behind });
  root.append(h("section", { class: "column" }, found.count ? list : h("p", { class: "soft" }, t("nothing")),
    h("p", { class: "export" }, more.element, shown, more.note), legend,
    found.count > 0 && exportButtons(question.query, pagesOf("/api/concordance", { ...question, sort }, "lines", row))));
  add(found.lines);
}

async function near(root, question, at, state, signal) {
  const window = Number(state.window ?? 5);
  const by = SCORES.includes(state.by) ? state.by : "loglik";
  const asked = { ...question, left: window, right: window, by, limit: 100 };
  const { collocates } = await get("/api/collocates", asked, signal);
  const columns = ["count", "left", "right", "in_corpus", "loglik", "logdice", "mi"];
  const figure = (name) => (["left", "right", "in_corpus"].includes(name) ? "figure detail" : "figure"); // a phone has no room for details
  const head = (name) => (SCORES.includes(name)
    ? h("a", { href: link("concordance", at({ by: name })), "aria-current": name === by ? "true" : null }, t(`col_${name}`)) : t(`col_${name}`));
  const rows = collocates.map((one) => h("tr", {},
    h("th", { scope: "row" }, h("a", { href: link("concordance", at({ query: one.word, mode: "words", part: "lines" })) }, one.word)),
    columns.map((name) => h("td", { class: figure(name) }, number(one[name], columns.indexOf(name) > 3 ? 2 : 0)))));
  root.append(h("section", { class: "column scroll" }, collocates.length
    ? h("table", { class: "collocates" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("collocate")),
      columns.map((name) => h("th", { scope: "col", class: figure(name), "aria-sort": name === by ? "descending" : null }, head(name))))), h("tbody", {}, rows))
    : h("p", { class: "soft" }, t("nothing")),
  collocates.length > 0 && exportButtons(`${question.query}-collocates`, async () => ({ count: collocates.length, rows: collocates }))));
}
