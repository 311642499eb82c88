// Which words of a sentence look at which, in one layer and head of a Transformer.

import { post } from "../api.js";
import { fill, h, svg } from "../dom.js";
import { choice, columnHead, empty, problem, waiting } from "../parts.js";
import { go } from "../router.js";
import { t } from "../strings.js";

const COMMAND = "polyseme train bert TEXT -o bert\npolyseme serve bert";
const LINE = 30; // height of a word
const WIDTH = 220; // between the two columns, less on a phone
const FAINTEST = 0.02;

export async function render(root, state, { library, signal }) {
  const models = library.items.filter((item) => item.attention);
  if (!models.length) {
    fill(root, h("h1", {}, t("attention")), empty(t("emptyAttention"), COMMAND));
    return;
  }
  const model = models.find((item) => item.name === state.model) ?? models[0];
  const at = (changes) => ({ ...state, model: model.name, ...changes });
  const settings = h("div", { class: "ask-row" });
  const answer = h("section", { class: "column" });
  fill(root, h("h1", { class: "unseen" }, t("attention")), form(models, model, state, at, settings), answer);
  if (!state.sentence) {
    fill(answer, columnHead(model), h("p", { class: "soft" }, t("attentionHint")));
    return;
  }
  fill(answer, waiting());
  const question = { model: model.name, sentence: state.sentence, head: Number(state.head ?? 1),
    layer: state.layer === undefined ? null : Number(state.layer) };
  try {
    const found = await post("/api/attention", question, signal);
    fill(settings, numbers("layer", found.layers, found.layer, at), numbers("head", found.heads, found.head, at));
    fill(answer, columnHead(model), h("p", { class: "soft" }, t("attentionNote")), drawn(found, state, at));
  } catch (error) {
    if (error.name !== "AbortError") fill(answer, problem(error));
  }
}

function form(models, model, state, at, settings) {
  const submit = (event) => {
    event.preventDefault();
    const sentence = new FormData(event.target).get("sentence").trim();
    if (sentence) go("attention", at({ sentence, from: undefined }));
  };
  return h("form", { class: "ask", onsubmit: submit },
    h("label", { class: "field big wide" }, h("span", {}, t("sentenceLabel")),
      h("input", { id: "sentence", name: "sentence", value: state.sentence ?? "", maxlength: 2000, autocomplete: "off", spellcheck: "false" })),
    h("button", { class: "primary" }, t("look")),
    models.length > 1 && choice({ id: "model", label: t("model"), value: model.name, options: models.map((m) => [m.name, m.name]),
      onchange: (name) => go("attention", { sentence: state.sentence, model: name }) }),
    settings);
}

const numbers = (id, most, value, at) => choice({ id, label: t(id), value, options: Array.from({ length: most }, (_, i) => [i + 1, i + 1]),
  onchange: (next) => go("attention", at({ [id]: next }), { replace: true }) });

// Words twice, one column on each side, and a line for each pair.
function drawn({ tokens, weights, layer, head }, state, at) {
  const chosen = state.from === undefined ? -1 : Number(state.from);
  const height = LINE * tokens.length;
  const middle = (i) => LINE * i + LINE / 2;
  const lines = weights.flatMap((row, i) => (chosen >= 0 && i !== chosen ? [] : row.map((weight, j) => weight < FAINTEST ? null
    : svg("line", { x1: 0, y1: middle(i), x2: WIDTH, y2: middle(j), "stroke-opacity": Math.sqrt(weight).toFixed(3), "data-pair": `${i}-${j}` }))));
  const rest = (i) => Math.max(0, 1 - weights[i].reduce((sum, weight) => sum + weight, 0));
  const from = tokens.map((token, i) => h("li", {}, h("button", { type: "button", id: `from-${i}`, "aria-pressed": String(i === chosen),
    title: `${t("specialShare")} ${percent(rest(i))}`, onclick: () => go("attention", at({ from: i === chosen ? undefined : i }), { replace: true }) }, token)));
  const to = tokens.map((token, j) => h("li", {}, h("span", { class: "shade", vars: { "--share": chosen < 0 ? 0 : weights[chosen][j].toFixed(3) } }, token),
    chosen >= 0 && h("span", { class: "soft" }, ` ${percent(weights[chosen][j])}`)));
  return h("div", { class: "attention-lines", role: "group", "aria-label": t("attentionOf", layer, head)},
    h("ol", { class: "from" }, from),
    svg("svg", { width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" }, lines),
    h("ol", { class: "to" }, to));
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
