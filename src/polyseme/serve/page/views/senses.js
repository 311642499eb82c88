// The uses of a word: its occurrences as coloured clusters on a plane, with their sentences; all occurrences of one use.

import { get } from "../api.js";
import { arrowKeys, fill, h } from "../dom.js";
import { exportButtons, hitRow, pagesOf, pictureButton } from "../export.js";
import { choice, empty, hitLink, kwic, moreButton, ofKind, tagLegend, waiting, wordField } from "../parts.js";
import { go, link } from "../router.js";
import { scatter, touch } from "../scatter.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme corpus TEXT -o corpus\npolyseme train elmo corpus -o elmo\npolyseme index elmo corpus -o index\npolyseme serve index";
const PAGE = 50;
const SORTS = ["score", "order", "left", "right", "random"];
const UNSURE = 0.1; // silhouettes below it: between two uses

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
  if (state.use !== undefined) {
    await oneUse(answer, index, state, signal);
    return;
  }
  const found = await get("/api/senses", { index: index.name, word: state.word }, signal).finally(() => fill(answer));
  show(answer, found, index, signal);
}

// Words that were seen to split, with how clearly; else some frequent ones.
function examples(index) {
  const split = new Map(index.splits ?? []);
  const words = split.size ? [...split.keys()] : index.examples ?? [];
  return words.length > 0 && h("section", { class: "examples" }, h("h2", {}, split.size ? t("splitHelp") : t("tryOne")),
    h("p", {}, words.map((word) => h("a", { href: link("senses", { index: index.name, word }) }, word,
      split.has(word) && h("span", { class: "score", title: t("sureHelp") }, ` ${split.get(word).toFixed(2)}`)))));
}

// One occurrence in an exported file.
const row = (one) => ({ use: one.use, score: one.score, margin: one.margin, document: one.document, source: one.source,
  sentence: one.sentence, tag: one.tag, before: one.before, ...hitRow(one), behind: one.behind });

async function oneUse(root, index, { word, use, sort: asked }, signal) {
  const sort = SORTS.includes(asked) ? asked : "score";
  const question = { index: index.name, word, use, sort };
  const found = await get("/api/uses", { ...question, limit: PAGE }, signal).finally(() => fill(root));
  const colour = (Number(use) - 1) % 8;
  const list = arrowKeys(h("ul", { class: "hits", id: "lines" }));
  const shown = h("span", { class: "soft" }), legend = h("div"), tags = [];
  const add = (page) => {
    list.append(...page.map((one) => kwic(one, { href: hitLink(index.name, one), source: true, mark: `ink-${colour}`, faded: one.margin < 0 })));
    tags.push(...page.map((one) => one.tag));
    fill(shown, t("shownOf", number(list.children.length), number(found.count)));
    more.element.hidden = list.children.length >= found.count;
    fill(legend, tagLegend(index, tags));
  };
  const more = moreButton(async () => {
    add((await get("/api/uses", { ...question, limit: PAGE, offset: list.children.length }, signal)).occurrences);
  });
  fill(root, h("h2", {}, t("useOf", word, use), " ", h("a", { class: "soft small-link", href: link("senses", { index: index.name, word }) }, t("backToUses", word))),
    h("div", { class: "ask" }, choice({ id: "sort", label: t("sortBy"), value: sort, options: SORTS.map((key) => [key, t(`sort_${key}`)]),
      onchange: (next) => go("senses", { index: index.name, word, use, sort: next }, { replace: true }) })),
    h("section", { class: `column edge-${colour}` }, list, h("p", { class: "export" }, more.element, shown, more.note), legend,
      exportButtons(`${word}-${use}`, pagesOf("/api/uses", question, "occurrences", row))));
  add(found.occurrences);
}

function show(root, found, item, signal) {
  const index = item.name;
  const canvas = h("canvas", { class: "plane", tabindex: "0", role: "img", "aria-label": t("sensesMap", found.word) });
  const under = h("p", { class: "under soft", "aria-live": "polite" }, t(`mapHelp${touch()}`));
  const cards = found.senses.map((sense, i) => card(sense, i, found, index));
  const count = found.senses.length === 1 ? t("oneSense") : t("manySenses", found.senses.length);
  const sample = found.looked_at < found.count ? t("drawn", number(found.looked_at), number(found.count)) : t("occurrences", number(found.count));
  const tags = found.senses.flatMap((sense) => sense.typical.map((hit) => hit.tag));
  fill(root, h("h2", {}, t("sensesOf", found.word), " ",
    h("span", { class: "soft" }, `${count} · ${sample}`, found.sure !== null && [" · ", sureness(found.sure)])),
  shares(found.senses),
  h("p", { class: "soft" }, t("usesNote")),
  h("div", { class: "senses-split" },
    h("div", { class: "plane-box" }, canvas, under, h("p", { class: "export" }, pictureButton(found.word, () => canvas))),
    h("div", { class: "cards" }, cards, tagLegend(item, tags))),
  exportButtons(found.word, pagesOf("/api/uses", { index, word: found.word }, "occurrences", row)));
  const points = found.points.map(({ x, y, sense, sure, hit }) => ({ x, y, group: sense, faint: found.sure !== null && sure < UNSURE, hit }));
  const plane = scatter(canvas, points, {
    signal,
    onhover: (point) => fill(under, point ? [sentence(point.hit, point.group), " ", h("a", { href: hitLink(index, point.hit) }, t("openPoint"))] : t(`mapHelp${touch()}`)),
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

const sureness = (value) => h("span", { class: value < UNSURE ? "unsure" : null, title: t("sureHelp") }, t("sure", value.toFixed(2)));

function card(sense, i, found, index) {
  const all = link("senses", { index, word: found.word, use: i + 1 });
  return h("article", { class: `card edge-${i % 8}${sense.sure !== null && sense.sure < UNSURE ? " faded" : ""}` },
    h("h3", {}, h("span", { class: `dot fill-${i % 8}` }), t("sense", i + 1), " ",
      h("span", { class: "soft" }, `${(100 * sense.share).toFixed(0)} % · `, sense.sure !== null && [sureness(sense.sure), " · "],
        h("a", { href: all, class: "small-link" }, t("allOfUse", number(Math.round(sense.share * found.count)))))),
    sense.substitutes.length > 0 && h("p", { class: "substitutes" }, h("span", { class: "soft" }, t(found.labels)), " ",
      sense.substitutes.map((word) => h("span", { class: "word" }, word))),
    arrowKeys(h("ul", { class: "hits" }, sense.typical.map((hit) =>
      kwic(hit, { href: hitLink(index, hit), score: false, mark: `ink-${i % 8}` })))));
}

function sentence(hit, group) {
  const characters = [...hit.text];
  return h("span", { class: "whole" }, characters.slice(0, hit.start).join(""),
    h("mark", { class: `ink-${group % 8}` }, characters.slice(hit.start, hit.end).join("")), characters.slice(hit.end).join(""));
}
