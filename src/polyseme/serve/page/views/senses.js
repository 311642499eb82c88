// The senses of a word: its occurrences as coloured clusters on a plane, with their sentences.

import { get } from "../api.js";
import { arrowKeys, fill, h } from "../dom.js";
import { choice, empty, hitLink, kwic, ofKind, waiting, wordField } from "../parts.js";
import { go, link } from "../router.js";
import { scatter } from "../scatter.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme corpus TEXT -o corpus\npolyseme train elmo corpus -o elmo\npolyseme index elmo corpus -o index\npolyseme serve index";

export async function render(root, state, { library, signal }) {
  const indexes = ofKind(library, "index");
  if (!indexes.length) {
    fill(root, h("h1", {}, t("senses")), empty(t("emptyIndex"), COMMAND));
    return;
  }
  const index = indexes.find((item) => item.name === state.index) ?? indexes[0];
  const submit = (event) => {
    event.preventDefault();
    const word = new FormData(event.target).get("word").trim();
    if (word) go("senses", { index: index.name, word });
  };
  const answer = h("div", { class: "senses-answer" });
  fill(root, h("h1", { class: "unseen" }, t("senses")),
    h("form", { class: "ask", onsubmit: submit },
      wordField({ id: "word", label: t("word"), value: state.word, model: index.name, signal, big: true }),
      h("button", { class: "primary" }, t("show")),
      indexes.length > 1 && choice({ id: "index", label: t("index"), value: index.name, options: indexes.map((i) => [i.name, i.name]),
        onchange: (name) => go("senses", { index: name, word: state.word }) })),
    answer);
  if (!state.word) {
    fill(answer, examples(index));
    return;
  }
  fill(answer, waiting());
  const found = await get("/api/senses", { index: index.name, word: state.word }, signal).finally(() => fill(answer));
  show(answer, found, index.name, signal);
}

function examples(index) {
  const words = index.examples ?? [];
  return words.length > 0 && h("section", { class: "examples" }, h("h2", {}, t("tryOne")),
    h("p", {}, words.map((word) => h("a", { href: link("senses", { index: index.name, word }) }, word))));
}

function show(root, found, index, signal) {
  const canvas = h("canvas", { class: "plane", tabindex: "0", role: "img", "aria-label": t("sensesMap", found.word) });
  const under = h("p", { class: "under soft", "aria-live": "polite" }, t("mapHelp"));
  const cards = found.senses.map((sense, i) => card(sense, i, index, found.labels));
  const count = found.senses.length === 1 ? t("oneSense") : t("manySenses", found.senses.length);
  fill(root, h("h2", {}, t("sensesOf", found.word), " ",
    h("span", { class: "soft" }, `${count} · ${t("occurrences", number(found.count))}`)),
  shares(found.senses),
  h("div", { class: "senses-split" }, h("div", { class: "plane-box" }, canvas, under), h("div", { class: "cards" }, cards)));
  const points = found.points.map(({ x, y, sense, hit }) => ({ x, y, group: sense, hit }));
  const plane = scatter(canvas, points, {
    signal,
    onhover: (point) => fill(under, point ? sentence(point.hit, point.group) : t("mapHelp")),
    onpick: (point) => { location.hash = hitLink(index, point.hit); },
  });
  cards.forEach((element, i) => {
    const light = (on) => () => {
      plane.only(on ? i : null);
      element.classList.toggle("lit", on);
    };
    for (const name of ["mouseenter", "focusin"]) element.addEventListener(name, light(true));
    for (const name of ["mouseleave", "focusout"]) element.addEventListener(name, light(false));
  });
}

// One bar for all senses, each as long as its share.
function shares(senses) {
  return h("div", { class: "shares", "aria-hidden": "true" }, senses.map((sense, i) =>
    h("span", { class: `fill-${i % 8}`, vars: { "--share": sense.share } })));
}

function card(sense, i, index, labels) {
  return h("article", { class: `card edge-${i % 8}` },
    h("h3", {}, h("span", { class: `dot fill-${i % 8}` }), t("sense", i + 1), " ",
      h("span", { class: "soft" }, `${(100 * sense.share).toFixed(0)} % · ${number(sense.size)}`)),
    sense.substitutes.length > 0 && h("p", { class: "substitutes" }, h("span", { class: "soft" }, t(labels)), " ",
      sense.substitutes.map((word) => h("span", { class: "word" }, word))),
    arrowKeys(h("ul", { class: "hits" }, sense.typical.map((hit) =>
      kwic(hit, { href: hitLink(index, hit), score: false, mark: `ink-${i % 8}` })))));
}

function sentence(hit, group) {
  const characters = [...hit.text];
  return h("span", { class: "whole" }, characters.slice(0, hit.start).join(""),
    h("mark", { class: `ink-${group % 8}` }, characters.slice(hit.start, hit.end).join("")), characters.slice(hit.end).join(""));
}
