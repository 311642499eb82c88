// What is loaded, and the card of one of them with calls to copy.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { code, empty, indexOf, methodOf } from "../parts.js";
import { link } from "../router.js";
import { curlGet, curlPost, quoted } from "../shell.js";
import { getLanguage, number, t } from "../strings.js";

const HIDDEN = new Set(["text", "tags", "tagged", "splits", "name", "kind", "path", "chinese", "curve", "options", "corpus", "segmentation", "paper", "examples", "attends", "changed"]);

const NAMED = new Set(["kind", "method", "task", "states", "search"]); // facts whose values are names

export async function render(root, state, { library, signal }) {
  if (!library.items.length) {
    fill(root, h("h1", {}, t("models")), empty(t("emptyAll"), "polyseme serve MODEL INDEX"));
    return;
  }
  const item = library.items.find((one) => one.name === state.name) ?? library.items[0];
  const list = h("nav", { class: "shelf", "aria-label": t("loaded") }, library.items.map((one) =>
    h("a", { href: link("models", { name: one.name }), id: `item-${one.name}`, "aria-current": one === item ? "true" : null },
      h("strong", {}, one.name), h("span", { class: "soft" }, [methodOf(one), t(`kind_${one.kind}`)].filter(Boolean).join(" · ")))));
  const sheet = h("article", { class: "sheet" });
  fill(root, h("h1", { class: "unseen" }, t("models")), h("div", { class: "models-split" }, list, sheet));
  list.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" });
  const card = await get(`/api/library/${encodeURIComponent(item.name)}`, {}, signal);
  const sentence = await sentenceOf(indexOf(library, item), signal);
  if (signal.aborted) return;
  fill(sheet,
    h("h2", {}, card.name, " ", h("span", { class: "soft" }, [card.method, card.chinese].filter(Boolean).join(" "))),
    h("p", {}, t(`kind_${card.kind}`), card.paper && !(card.task && getLanguage() === "zh") && [" — ", h("cite", {}, card.paper)]),
    card.changed && h("p", {}, t("changedOnDisk")),
    h("section", {}, h("h3", {}, t("facts")), facts(Object.entries(card).filter(([key]) => !HIDDEN.has(key)))),
    Object.keys(card.corpus).length > 0 && h("section", {}, h("h3", {}, t("text")),
      facts([...Object.entries(card.corpus), ...(card.segmentation ? [["segmentation", card.segmentation]] : [])])),
    h("section", {}, h("h3", {}, t("calls")), calls(card, card.examples?.[0] ?? t("wordExample"), sentence)),
    card.options.length > 0 && h("section", {}, h("h3", {}, t("options")), optionTable(card.options)));
}

function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([key, value]) =>
    h("div", {}, h("dt", {}, t(`fact_${key}`, key.replaceAll("_", " "))), h("dd", {}, NAMED.has(key) ? t(`value_${value}`, value) : plain(value)))));
}

function optionTable(options) {
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["option", "value", "meaning"].map((key) => h("th", { scope: "col" }, t(key))))),
    h("tbody", {}, options.map((one) => h("tr", {},
      h("th", { scope: "row" }, one.name), h("td", {}, plain(one.value)), h("td", { class: "soft" }, (getLanguage() === "zh" && one.chinese) || one.help))))));
}

function plain(value) {
  if (typeof value === "number") return value !== 0 && Math.abs(value) < 1e-5 ? String(value) : number(value, 6);
  if (value === null) return "–";
  if (typeof value === "boolean") return t(value ? "yes" : "no");
  if (Array.isArray(value)) return value.map(plain).join(t("listComma")) || "–";
  if (typeof value === "object") return Object.values(value).map(plain).filter((part) => !["–", "keep"].includes(part)).join(" · ");
  return String(value);
}

// A short sentence of the text that the model was trained on, where that text is loaded too.
async function sentenceOf(index, signal) {
  const word = index?.examples[0];
  const { hits } = word ? await get("/api/sentences", { corpus: index.name, word, limit: 50 }, signal) : { hits: [] };
  const texts = hits.map((hit) => hit.text).filter((text) => text.length > word.length + 3);
  return texts.sort((a, b) => a.length - b.length)[0] ?? t("sentenceExample");
}

const rowsOf = () => ({
  classify: ["texts", [t("sentenceExample")], "texts.txt"],
  pair: ["pairs", [[t("sentenceExample"), t("pairExample")]], "pairs.tsv"],
  tag: ["sentences", [t("passageExample")], "sentences.txt"],
  span: ["passages", [[t("passageExample"), t("questionExample")]], "questions.json"],
  choice: ["choices", [[t("sentenceExample"), [t("pairExample"), t("alternativeExample")]]], "choices.jsonl"],
});

const PARTS = { span: ["passage", "question"], choice: ["context", "alternatives"] }; // rows with names in requests


function taskCalls(card, path, shell) {
  if (!card.task) return null;
  const [kind, rows, file] = rowsOf()[card.task];
  const names = PARTS[card.task];
  const sent = names ? rows.map((row) => Object.fromEntries(names.map((name, i) => [name, row[i]]))) : rows;
  const python = JSON.stringify(rows).replaceAll(",", ", ");
  return [`import polyseme\n\nmodel = polyseme.load(${path})\nmodel.predict(${python})`, `polyseme predict ${shell} ${file}`,
    curlPost("/api/predict", { model: card.name, [kind]: sent })];
}

function calls(card, word, sentence) {
  const path = JSON.stringify(card.path), shell = quoted(card.path), name = card.name;
  const text = [sentence];
  const table = {
    words: [`import polyseme\n\nwv = polyseme.load(${path})\nwv.most_similar(${JSON.stringify(word)}, topn=10)`,
      `polyseme neighbours ${shell} ${quoted(word)}`, curlGet("/api/neighbours", { model: name, word })],
    contexts: [`import polyseme\n\nencoder = polyseme.load(${path})\nfor sentence in encoder.encode_tokens([${JSON.stringify(text[0])}]):\n    sentence.tokens, sentence.layers.shape`,
      `polyseme encode ${shell} sentences.txt -o vectors.npy`, curlPost("/api/encode/tokens", { model: name, sentences: text })],
    sentences: [`import polyseme\n\nencoder = polyseme.load(${path})\nencoder.encode([${JSON.stringify(text[0])}])`,
      `polyseme encode ${shell} sentences.txt -o vectors.npy`, curlPost("/v1/embeddings", { model: name, input: text })],
    task: taskCalls(card, path, shell),
    index: [`from polyseme.search import Index\n\nindex = Index.open(${path})\nindex.senses(${JSON.stringify(word)})`,
      `polyseme uses ${shell} ${quoted(word)}`, curlGet("/api/senses", { index: name, word })],
    texts: [`import polyseme\nfrom polyseme.search import TextIndex\n\nindex = TextIndex.open(${path}, polyseme.load("MODEL"))\nindex.search(${JSON.stringify(word)}, k=5)`,
      `polyseme search MODEL ${shell} ${quoted(word)}`, curlPost("/api/texts/search", { model: "MODEL", texts: name, query: word })],
    corpus: [`import polyseme\n\ncorpus = polyseme.Corpus.open(${path})\ncorpus.sentence(0)`, `polyseme info ${shell}`,
      curlGet("/api/sentences", { corpus: name, word })],
  };
  const [python, command, curl] = table[card.kind];
  return [["Python", python], [t("commandLine"), command], ["HTTP", curl]].map(([label, call]) => [h("h4", {}, label), code(call)]);
}
