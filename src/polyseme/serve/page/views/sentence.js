// A sentence as words to click: where the word is used alike and what is expected there, beside what a static model says.

import { get, post } from "../api.js";
import { arrowKeys, fill, h, withModifier } from "../dom.js";
import { choice, columnHead, empty, hitLink, kwic, ofKind, problem, scoreList, tagLegend, waiting } from "../parts.js";
import { go, link } from "../router.js";
import { t } from "../strings.js";

const COMMAND = "polyseme corpus TEXT -o corpus\npolyseme train elmo corpus -o elmo\npolyseme index elmo corpus -o index\npolyseme serve index";

export async function render(root, state, { library, signal }) {
  const indexes = ofKind(library, "index");
  if (!indexes.length) {
    fill(root, h("h1", {}, t("sentence")), empty(t("emptyIndex"), COMMAND));
    return;
  }
  const index = indexes.find((item) => item.name === state.index) ?? indexes[0];
  const at = (changes) => ({ ...state, index: index.name, ...changes });
  // A sentence of the corpus is taken as it was cut there; one that was typed is cut now.
  const known = state.number === undefined ? null
    : await get("/api/sentence", { corpus: index.name, number: state.number }, signal).catch((error) => ({ error }));
  const text = known?.text ?? state.sentence;
  const submit = (event) => {
    event.preventDefault();
    const sentence = new FormData(event.target).get("sentence").trim();
    if (sentence) go("sentence", at({ sentence, number: undefined, at: undefined }));
  };
  const words = h("div", { class: "tokens", role: "group", "aria-label": t("sentenceLabel") });
  const answer = h("div", { class: "columns two" });
  fill(root, h("h1", { class: "unseen" }, t("sentence")),
    h("form", { class: "ask", onsubmit: submit },
      h("label", { class: "field big wide" }, h("span", {}, t("sentenceLabel")),
        h("input", { id: "sentence", name: "sentence", value: text ?? "", placeholder: t("sentenceHint"), maxlength: 2000,
          autocomplete: "off", spellcheck: "false" })),
      h("button", { class: "primary" }, t("cut")),
      indexes.length > 1 && choice({ id: "index", label: t("index"), value: index.name, options: indexes.map((i) => [i.name, i.name]),
        onchange: (name) => go("sentence", at({ index: name, sentence: text, number: undefined, at: undefined, layer: undefined })) }),
      layerSlider(index, state, at),
      h("label", { class: "check" }, h("input", { type: "checkbox", id: "any", checked: state.any === "1",
        onchange: (event) => go("sentence", at({ any: event.target.checked ? "1" : undefined }), { replace: true }) }),
      h("span", {}, t("anyWord")))),
    words, answer);
  if (known?.error) throw known.error;
  if (!text) {
    fill(answer, await sentenceExamples(index, at, signal));
    return;
  }
  const { tokens } = known ?? await get("/api/tokens", { model: index.name, text }, signal);
  const chosen = state.at === undefined ? -1 : Number(state.at);
  fill(words, tokens.map((token, i) => h("button", { type: "button", id: `token-${i}`, "aria-pressed": String(i === chosen),
    onclick: () => go("sentence", at({ at: i })) }, token)));
  arrowKeysAcross(words);
  if (!(chosen >= 0 && chosen < tokens.length)) {
    fill(answer, h("p", { class: "soft hint" }, t("pickWord")));
    return;
  }
  await answers(answer, { library, index, tokens, chosen, state, at, signal });
}

function arrowKeysAcross(words) {
  arrowKeys(words);
  words.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || withModifier(event)) return;
    event.preventDefault();
    const all = [...words.children];
    all[Math.min(all.length - 1, Math.max(0, all.indexOf(document.activeElement) + step))]?.focus();
  });
}

function layerSlider(index, state, at) {
  const { layers } = index;
  if (layers.length < 2) return h("span", { class: "soft check one-layer", title: t("oneLayer") }, t("layerOf", layers[0]));
  const asked = layers.indexOf(Number(state.layer ?? index.layer));
  const place = asked < 0 ? layers.indexOf(index.layer) : asked;
  const output = h("output", { for: "layer" }, layers[place]);
  return h("label", { class: "field slider" }, h("span", {}, t("layer"), " ", output),
    h("input", { type: "range", id: "layer", min: 0, max: layers.length - 1, step: 1, value: place,
      oninput: (event) => { output.textContent = layers[event.target.value]; },
      onchange: (event) => go("sentence", at({ layer: layers[event.target.value] }), { replace: true }) }));
}

async function answers(root, { library, index, tokens, chosen, state, at, signal }) {
  const word = tokens[chosen];
  const context = h("section", { class: "column" }, h("h2", {}, t(state.any === "1" ? "sameSenseAny" : "sameSense", word)), h("p", { class: "soft" }, t("contextNote")));
  const fixed = h("section", { class: "column" }, h("h2", {}, t("staticAnswer", word)), h("p", { class: "soft" }, t("staticNote")));
  fill(root, context, fixed);
  await Promise.all([sameSense(), staticAnswer()]);

  async function sameSense() {
    const wait = context.appendChild(waiting());
    const question = { index: index.name, sentence: tokens, position: chosen, topn: 15, any_word: state.any === "1",
      layer: state.layer === undefined ? null : Number(state.layer) };
    try {
      const { hits, cutoff, expected } = await post("/api/same-sense", question, signal);
      const low = hits.findIndex((hit) => cutoff !== null && hit.score < cutoff);
      const line = (hit, faded) => kwic(hit, { href: hitLink(index.name, hit), faded });
      wait.replaceWith(h("div", {},
        expected.length > 0 && h("p", { class: "substitutes" }, h("span", { class: "soft" }, t("expectedHere")), " ",
          expected.map((other) => h("span", { class: "word" }, other))),
        hits.length ? arrowKeys(h("ul", { class: "hits" }, hits.map((hit, i) => [
          i === low && h("li", { class: "cutoff soft" }, t("unsureBelow", cutoff.toFixed(2))), line(hit, low >= 0 && i >= low)])))
          : h("p", { class: "soft" }, t("nothing")),
        tagLegend(index, hits.map((hit) => hit.tag))));
    } catch (error) {
      if (error.name !== "AbortError") wait.replaceWith(problem(error));
    }
  }

  async function staticAnswer() {
    const models = ofKind(library, "words");
    if (!models.length) {
      fixed.append(empty(t("staticMissing"), `polyseme train word2vec corpus -o words\npolyseme serve ${index.path} words`));
      return;
    }
    // The one that was trained on the text of the index, unless another was chosen.
    const same = (item) => item.text?.tokens === index.text?.tokens && item.text?.sentences === index.text?.sentences;
    const model = models.find((item) => item.name === state.static) ?? models.find(same) ?? models[0];
    if (models.length > 1) {
      fixed.append(choice({ id: "static", label: t("model"), value: model.name, options: models.map((m) => [m.name, m.name]),
        onchange: (name) => go("sentence", at({ static: name, at: chosen }), { replace: true }) }));
    }
    try {
      const { neighbours } = await get("/api/neighbours", { model: model.name, word, topn: 15 }, signal);
      fixed.append(columnHead(model), ...(same(model) ? [h("p", { class: "soft" }, t("sameText"))] : []), scoreList(neighbours, { href: (next) => link("neighbours", { word: next, models: model.name }) }));
    } catch (error) {
      if (error.name !== "AbortError") fixed.append(problem(error));
    }
  }
}

async function sentenceExamples(index, at, signal) {
  const word = index.examples?.[0];
  if (!word) return h("p", { class: "soft hint" }, t("pickWord"));
  const { hits } = await get("/api/sentences", { corpus: index.name, word, limit: 6 }, signal);
  return h("section", { class: "column" }, h("h2", {}, t("tryOne")),
    arrowKeys(h("ul", { class: "hits" }, hits.map((hit) => kwic(hit, { href: hitLink(index.name, hit), score: false })))));
}
