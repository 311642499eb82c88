// Texts nearest to a query, by one to three models side by side, the query's words marked.

import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { choice, chosenModels, columnHead, empty, modelChips, problem, segmented, waiting } from "../parts.js";
import { go } from "../router.js";
import { t } from "../strings.js";

const COMMAND = "polyseme search MODEL TEXT -o texts\npolyseme serve MODEL texts";
const ENCODERS = ["words", "contexts", "sentences"];
const HOWS = ["vectors", "words", "both"];

export async function render(root, state, { library, signal }) {
  const models = library.items.filter((item) => ENCODERS.includes(item.kind));
  const sources = library.items.filter((item) => ["texts", "corpus", "index"].includes(item.kind));
  if (!models.length || !sources.length) {
    fill(root, h("h1", {}, t("search")), empty(t(models.length ? "emptySearch" : "emptyEncoders"), COMMAND));
    return;
  }
  const source = sources.find((item) => item.name === state.texts) ?? sources[0];
  const chosen = chosenModels(models, state);
  const how = HOWS.includes(state.how) ? state.how : "vectors";
  const at = (changes) => ({ query: state.query, texts: source.name, models: state.models, how, ...changes });
  const submit = (event) => {
    event.preventDefault();
    const query = new FormData(event.target).get("query").trim();
    if (query) go("search", at({ query }));
  };
  const columns = h("div", { class: "columns" });
  fill(root, h("h1", { class: "unseen" }, t("search")),
    h("form", { class: "ask", onsubmit: submit },
      h("label", { class: "field big wide" }, h("span", {}, t("query")),
        h("input", { id: "query", name: "query", value: state.query ?? "", placeholder: t("searchHint"), autocomplete: "off", maxlength: 2000 })),
      h("button", { class: "primary" }, t("show")),
      sources.length > 1 && choice({ id: "texts", label: t("searchTexts"), value: source.name,
        options: sources.map((item) => [item.name, item.name]), onchange: (texts) => go("search", at({ texts })) }),
      models.length > 1 && modelChips({ models, chosen, onchange: (next) => go("search", at({ models: next.join(",") })) }),
      segmented({ id: "how", label: t("how"), value: how, options: HOWS.map((one) => [one, t(`how_${one}`)]),
        onchange: (next) => go("search", at({ how: next })) })),
    columns);
  if (!state.query) return;
  fill(columns, waiting());
  const asked = { texts: source.name, query: state.query, how, k: 10 };
  const answers = await Promise.all(chosen.map((model) =>
    post("/api/texts/search", { model, ...asked }, signal).catch((error) => ({ error }))));
  if (signal.aborted) return;
  // Where nobody chose the models, those that cannot search this text stand aside for those that can.
  const able = chosen.filter((_, i) => !answers[i].error);
  if (!state.models && able.length && able.length < chosen.length) {
    go("search", at({ models: able.join(",") }), { replace: true });
    return;
  }
  fill(columns, chosen.map((name, i) => h("section", { class: "column" },
    columnHead(models.find((item) => item.name === name)),
    answers[i].error ? problem(answers[i].error) : found(answers[i].hits))));
}

function found(hits) {
  if (!hits.length) return h("p", { class: "soft" }, t("nothingKnown"));
  return h("ol", { class: "found" }, hits.map((hit) => h("li", {},
    h("p", { class: "place" }, h("span", { class: "where", title: hit.source }, [hit.source, hit.line].filter(Boolean).join(" : ")),
      h("span", { class: "score" }, hit.score.toFixed(3))),
    hit.before.map((text) => h("p", { class: "around" }, text)),
    h("p", { class: "text" }, marked(hit)),
    hit.after.map((text) => h("p", { class: "around" }, text)))));
}

// Places count characters, of which JavaScript may take two units for one.
function marked({ text, marks }) {
  const characters = [...text];
  const pieces = [];
  let place = 0;
  for (const [start, end] of marks) {
    pieces.push(characters.slice(place, start).join(""), h("mark", {}, characters.slice(start, end).join("")));
    place = end;
  }
  return [...pieces, characters.slice(place).join("")];
}
