// The neighbours of a word in one to three models, side by side: as lists, or as graphs to walk through.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { wordGraph } from "../graph.js";
import { chosenModels, columnHead, empty, modelChips, ofKind, problem, scoreList, segmented, waiting,
  wordField, wordsInSeveral } from "../parts.js";
import { go, link } from "../router.js";
import { t } from "../strings.js";

const COMMAND = "polyseme train word2vec TEXT -o words\npolyseme serve words";

export async function render(root, state, { library, signal }) {
  const models = ofKind(library, "words");
  if (!models.length) {
    fill(root, h("h1", {}, t("neighbours")), empty(t("emptyWords"), COMMAND));
    return;
  }
  const chosen = chosenModels(models, state);
  const as = state.as === "graph" ? "graph" : "list";
  const at = (changes) => ({ word: state.word, models: chosen.join(","), as, ...changes });
  const submit = (event) => {
    event.preventDefault();
    const word = new FormData(event.target).get("word").trim();
    if (word) go("neighbours", at({ word }));
  };
  const columns = h("div", { class: `columns ${as}` });
  fill(root, h("h1", { class: "unseen" }, t("neighbours")),
    h("form", { class: "ask", onsubmit: submit },
      wordField({ id: "word", label: t("word"), value: state.word, model: chosen[0], signal, big: true }),
      h("button", { class: "primary" }, t("show")),
      models.length > 1 && modelChips({ models, chosen, onchange: (next) => go("neighbours", at({ models: next.join(",") })) }),
      segmented({ id: "as", label: t("shape"), value: as, options: [["list", t("list")], ["graph", t("graph")]],
        onchange: (next) => go("neighbours", at({ as: next })) })),
    columns);
  if (!state.word) {
    const words = models.find((item) => item.name === chosen[0]).examples;
    fill(columns, h("section", { class: "examples" }, h("h2", {}, t("tryOne")),
      h("p", {}, words.map((word) => h("a", { href: link("neighbours", at({ word })) }, word)))));
    return;
  }
  fill(columns, waiting());
  const items = chosen.map((name) => models.find((item) => item.name === name));
  await (as === "graph" ? graphs : lists)(columns, items, state.word, at, signal);
}

async function lists(columns, items, word, at, signal) {
  const answers = await Promise.all(items.map((item) =>
    get("/api/neighbours", { model: item.name, word, topn: 15 }, signal).catch((error) => ({ error }))));
  if (signal.aborted) return;
  const shared = wordsInSeveral(answers.map((answer) => answer.neighbours));
  const href = (next) => link("neighbours", at({ word: next }));
  const all = () => [...columns.querySelectorAll("ol.scores")];
  fill(columns, items.map((item, i) => h("section", { class: "column" }, columnHead(item),
    answers[i].error ? problem(answers[i].error) : scoreList(answers[i].neighbours, { href, shared, lists: all }))));
}

async function graphs(columns, items, word, at, signal) {
  const answers = await Promise.all(items.map((item) =>
    get("/api/graph", { model: item.name, word, topn: innerWidth < 520 ? 9 : items.length > 1 ? 12 : 16 }, signal).catch((error) => ({ error }))));
  if (signal.aborted) return;
  const walk = (next) => go("neighbours", at({ word: next }));
  fill(columns, items.map((item, i) => h("section", { class: "column" }, columnHead(item),
    answers[i].error ? problem(answers[i].error) : wordGraph(item.name, answers[i], { walk, signal }))));
  columns.after(h("p", { class: "soft hint" }, t("walkHint")));
}
