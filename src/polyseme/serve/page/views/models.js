// What is loaded, and the card of one of them with calls to copy.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { code, empty, examples } from "../parts.js";
import { link } from "../router.js";
import { getLanguage, number, t } from "../strings.js";

const HIDDEN = new Set(["text", "tags", "splits", "name", "kind", "path", "chinese", "curve", "options", "corpus", "segmentation", "paper", "examples", "attends"]);

export async function render(root, state, { library, signal }) {
  if (!library.items.length) {
    fill(root, h("h1", {}, t("models")), empty(t("emptyAll"), "polyseme serve MODEL INDEX"));
    return;
  }
  const item = library.items.find((one) => one.name === state.name) ?? library.items[0];
  const list = h("nav", { class: "shelf", "aria-label": t("loaded") }, library.items.map((one) =>
    h("a", { href: link("models", { name: one.name }), id: `item-${one.name}`, "aria-current": one === item ? "true" : null },
      h("strong", {}, one.name), h("span", { class: "soft" }, [one.method, t(`kind_${one.kind}`)].filter(Boolean).join(" · ")))));
  const sheet = h("article", { class: "sheet" });
  fill(root, h("h1", { class: "unseen" }, t("models")), h("div", { class: "models-split" }, list, sheet));
  list.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  const card = await get(`/api/library/${encodeURIComponent(item.name)}`, {}, signal);
  const word = card.examples?.[0] ?? (card.words && item.kind !== "contexts" ? (await examples(item.name, signal, 1))[0] : null) ?? t("wordExample");
  if (signal.aborted) return;
  fill(sheet,
    h("h2", {}, card.name, " ", h("span", { class: "soft" }, [card.method, card.chinese].filter(Boolean).join(" "))),
    h("p", {}, t(`kind_${card.kind}`), card.paper && [" — ", h("cite", {}, card.paper)]),
    h("section", {}, h("h3", {}, t("facts")), facts(Object.entries(card).filter(([key]) => !HIDDEN.has(key)))),
    Object.keys(card.corpus).length > 0 && h("section", {}, h("h3", {}, t("text")),
      facts([...Object.entries(card.corpus), ...(card.segmentation ? [["segmentation", card.segmentation]] : [])])),
    h("section", {}, h("h3", {}, t("calls")), calls(card, word)),
    card.options.length > 0 && h("section", {}, h("h3", {}, t("options")), optionTable(card.options)));
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([key, value]) =>
    h("div", {}, h("dt", {}, t(`fact_${key}`, key.replaceAll("_", " "))), h("dd", {}, plain(value)))));
}

function optionTable(options) {
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["option", "value", "meaning"].map((key) => h("th", { scope: "col" }, t(key))))),
    h("tbody", {}, options.map((one) => h("tr", {},
      h("th", { scope: "row" }, one.name), h("td", {}, plain(one.value)), h("td", { class: "soft" }, (getLanguage() === "zh" && one.chinese) || one.help))))));
}

function plain(value) {
  if (typeof value === "number") return number(value, 6);
  if (value === null) return "–";
  if (typeof value === "boolean") return t(value ? "yes" : "no");
  if (Array.isArray(value)) return value.map(plain).join(", ") || "–";
  if (typeof value === "object") return Object.values(value).map(plain).filter((part) => !["–", "keep"].includes(part)).join(" · ");
  return String(value);
}

const quoted = (text) => (/^[\p{L}\p{N}_./~-]+$/u.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const ROWS = {
  classify: ["texts", ["他打了个电话。"], "texts.txt"],
  pair: ["pairs", [["他打了个电话。", "他打了电话。"]], "pairs.tsv"],
  tag: ["sentences", ["他在北京打电话。"], "sentences.txt"],
  span: ["passages", [["他在北京打电话。", "他在哪里？"]], "questions.json"],
};

function taskCalls(card, path, shell, post) {
  if (!card.task) return null;
  const [kind, rows, file] = ROWS[card.task];
  const sent = card.task === "span" ? rows.map(([passage, question]) => ({ passage, question })) : rows;
  const python = JSON.stringify(rows).replaceAll(",", ", ");
  return [`import polyseme\n\nmodel = polyseme.load(${path})\nmodel.predict(${python})`, `polyseme predict ${shell} ${file}`,
    post("/api/predict", { model: card.name, [kind]: sent })];
}

function calls(card, word) {
  const path = JSON.stringify(card.path), shell = quoted(card.path), origin = location.origin;
  const name = encodeURIComponent(card.name);
  const post = (route, body) => `curl ${origin}${route} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
  const text = [t("sentenceExample")];
  const table = {
    words: [`import polyseme\n\nwv = polyseme.load(${path})\nwv.most_similar(${JSON.stringify(word)}, topn=10)`,
      `polyseme neighbours ${shell} ${quoted(word)}`, `curl -G ${origin}/api/neighbours -d model=${name} --data-urlencode word=${quoted(word)}`],
    contexts: [`import polyseme\n\nencoder = polyseme.load(${path})\nfor sentence in encoder.encode_tokens([${JSON.stringify(text[0])}]):\n    sentence.tokens, sentence.layers.shape`,
      `polyseme encode ${shell} sentences.txt -o vectors.npy`, post("/api/encode/tokens", { model: card.name, sentences: text })],
    sentences: [`import polyseme\n\nencoder = polyseme.load(${path})\nencoder.encode([${JSON.stringify(text[0])}])`,
      `polyseme encode ${shell} sentences.txt -o vectors.npy`, post("/v1/embeddings", { model: card.name, input: text })],
    task: taskCalls(card, path, shell, post),
    index: [`from polyseme.search import Index\n\nindex = Index.open(${path})\nindex.senses(${JSON.stringify(word)})`,
      `polyseme uses ${shell} ${quoted(word)}`, `curl -G ${origin}/api/senses -d index=${name} --data-urlencode word=${quoted(word)}`],
    corpus: [`import polyseme\n\ncorpus = polyseme.Corpus.open(${path})\ncorpus.sentence(0)`, `polyseme info ${shell}`,
      `curl -G ${origin}/api/search -d corpus=${name} --data-urlencode word=${quoted(word)}`],
  };
  const [python, command, curl] = table[card.kind];
  return [["Python", python], [t("commandLine"), command], ["HTTP", curl]].map(([label, call]) => [h("h4", {}, label), code(call)]);
}
