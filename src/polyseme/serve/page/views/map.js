// The frequent words on a plane: PCA at once, t-SNE when it is ready.

import { get } from "../api.js";
import { announce, fill, h } from "../dom.js";
import { download, pictureButton, written } from "../export.js";
import { choice, empty, ofKind, segmented, waiting } from "../parts.js";
import { go, link } from "../router.js";
import { scatter, touch } from "../scatter.js";
import { getLanguage, number, t } from "../strings.js";

const COMMAND = "polyseme train word2vec TEXT -o words\npolyseme serve words";
const SIZES = [300, 1000, 3000];
const TOLD = 3; // words that a cluster is told by

export async function render(root, state, { library, signal }) {
  const models = ofKind(library, "words");
  if (!models.length) {
    fill(root, h("h1", {}, t("map")), empty(t("emptyWords"), COMMAND));
    return;
  }
  const model = models.find((item) => item.name === state.model) ?? models[0];
  const method = state.method === "tsne" ? "tsne" : "pca";
  const size = SIZES.includes(Number(state.size)) ? Number(state.size) : 1000;
  const tags = Object.assign({}, ...library.items.map((item) => item.tags ?? {}));
  const colours = ["none", "cluster", ...(library.items.some((item) => item.tagged) ? ["tag"] : [])];
  const colour = colours.includes(state.colour) ? state.colour : "cluster";
  const at = (changes) => ({ model: model.name, method, size, colour, find: state.find, only: state.only, ...changes });
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    go("map", at({ find: form.get("find").trim(), only: form.get("only").trim() }), { replace: true });
  };
  const note = h("p", { class: "soft", "aria-live": "polite" });
  const box = h("div", { class: "map-box" }, waiting());
  fill(root, h("h1", { class: "unseen" }, t("map")),
    h("form", { class: "ask", onsubmit: submit },
      models.length > 1 && choice({ id: "model", label: t("model"), value: model.name, options: models.map((m) => [m.name, m.name]),
        onchange: (name) => go("map", at({ model: name })) }),
      segmented({ id: "method", label: t("mapMethod"), value: method, options: [["pca", "PCA"], ["tsne", "t-SNE"]],
        onchange: (next) => go("map", at({ method: next })) }),
      choice({ id: "size", label: t("mapSize"), value: size, options: SIZES.map((n) => [n, number(n)]),
        onchange: (next) => go("map", at({ size: next })) }),
      choice({ id: "colour", label: t("colourBy"), value: colour, options: colours.map((key) => [key, t(`colour_${key}`)]),
        onchange: (next) => go("map", at({ colour: next }), { replace: true }) }),
      h("label", { class: "field narrow" }, h("span", {}, t("mapFilter")),
        h("input", { id: "only", name: "only", value: state.only ?? "", autocomplete: "off", maxlength: 50 })),
      h("label", { class: "field" }, h("span", {}, t("findWord")),
        h("input", { id: "find", name: "find", value: state.find ?? "", placeholder: t("wordHint"), autocomplete: "off" })),
      h("button", { class: "primary" }, t("show"))),
    note, box, h("p", { class: "soft hint" }, t(`mapKeys${touch()}`)));
  await show(box, note, { model: model.name, method, size }, { find: state.find, only: state.only, colour, tags }, signal);
}

async function show(box, note, question, wish, signal) {
  let found = await get("/api/map", question, signal);
  if (found.state !== "ready") {
    note.textContent = t("computing");
    draw(box, await get("/api/map", { ...question, method: "pca" }, signal), wish, note, signal);
    while (found.state === "computing") {
      await pause(700, signal);
      found = await get("/api/map", question, signal);
    }
    note.textContent = found.state === "failed" ? t("mapFailed", found.reason) : "";
    if (found.state === "failed") return;
  }
  draw(box, found, wish, note, signal);
}

function draw(box, found, { find, only, colour, tags }, note, signal) {
  const label = t("mapOf", number(found.points.length), found.model);
  const canvas = h("canvas", { class: "plane", tabindex: "0", role: "img", "aria-label": label, "data-method": found.method });
  const picked = h("p", { class: "picked", "aria-live": "polite" });
  const group = { cluster: (point) => point.cluster, tag: (point) => tagColour(found, point), none: () => undefined }[colour];
  const shown = found.points.filter((point) => !only || point.word.includes(only));
  let listed = shown; // or those within the line
  const rows = (points) => points.map(({ word, count, cluster, tag, x, y }) => ({ word, count, cluster, tag, x, y }));
  const opening = (word) => h("a", { href: link("neighbours", { word, models: found.model }) }, word);
  fill(box, canvas, legend(found, colour, tags), picked,
  h("p", { class: "export" }, pictureButton(`map-${found.model}`, () => canvas),
    h("button", { type: "button", class: "small", id: "export-words",
      onclick: () => download(`map-${found.model}.csv`, written(rows(listed), "csv"), "text/csv") }, t("wordList"))));
  const most = Math.log(1 + (found.points[0]?.count ?? 0)) || 1;
  const points = found.points.map((point) => ({ x: point.x, y: point.y, label: point.word, weight: Math.log(1 + point.count) / most, group: group(point) }));
  const plane = scatter(canvas, points, { labels: true, signal,
    onhover: (point) => point && announce(point.label),
    onlasso: (inside) => {
      const words = new Set(inside.map((point) => point.label));
      listed = words.size ? found.points.filter((point) => words.has(point.word)) : shown;
      fill(picked, h("strong", {}, words.size === 1 ? t("pickedOne") : t("picked", number(words.size))), " ", [...words].slice(0, 200).map(opening));
    },
    onpick: (point) => { location.hash = link("neighbours", { word: point.label, models: found.model }); } });
  if (only) plane.keep((point) => point.label.includes(only));
  if (!shown.length) note.textContent = t("noneWith", only);
  else if (find && (!shown.some((point) => point.word === find) || !plane.find(find))) note.textContent = t("notOnMap", find);
}

// Longer words first: the most frequent ones of all are words of grammar.
const telling = (words) => [...words.filter((word) => [...word].length > 1), ...words.filter((word) => [...word].length === 1)];

const OTHERS = 7; // the colour of rarer tags, and of words without one

function tagColour(found, { tag }) {
  const place = found.tags.indexOf(tag);
  return place < 0 || place > OTHERS ? OTHERS : place;
}

// What the colours stand for: tags with their names, or the most frequent words of each cluster.
function legend(found, colour, tags) {
  if (colour === "none") return false;
  const members = new Map();
  for (const { word, cluster } of found.points) members.set(cluster, [...(members.get(cluster) ?? []), word]);
  const named = (tag) => `${tag} ${tags[tag]?.[getLanguage() === "zh" ? 1 : 0] ?? ""}`;
  const others = found.points.some((point) => tagColour(found, point) === OTHERS) ? [[OTHERS, t("otherTags")]] : [];
  const entries = colour === "tag" ? [...found.tags.slice(0, OTHERS).map((tag, i) => [i, named(tag)]), ...others]
    : [...members].sort(([a], [b]) => a - b).map(([cluster, words]) => [cluster % 8, telling(words).slice(0, TOLD).join(" ")]);
  return h("p", { class: "legend soft" }, entries.map(([i, text]) => h("span", {}, h("span", { class: `dot fill-${i}` }), text)));
}

function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
