// The frequent words on a plane: PCA at once, t-SNE when it is ready.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { choice, empty, ofKind, segmented, waiting } from "../parts.js";
import { go, link } from "../router.js";
import { scatter } from "../scatter.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme train word2vec TEXT -o words\npolyseme serve words";
const SIZES = [300, 1000, 3000];

export async function render(root, state, { library, signal }) {
  const models = ofKind(library, "words");
  if (!models.length) {
    fill(root, h("h1", {}, t("map")), empty(t("emptyWords"), COMMAND));
    return;
  }
  const model = models.find((item) => item.name === state.model) ?? models[0];
  const method = state.method === "tsne" ? "tsne" : "pca";
  const size = SIZES.includes(Number(state.size)) ? Number(state.size) : 1000;
  const at = (changes) => ({ model: model.name, method, size, find: state.find, ...changes });
  const submit = (event) => {
    event.preventDefault();
    go("map", at({ find: new FormData(event.target).get("find").trim() }), { replace: true });
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
      h("label", { class: "field" }, h("span", {}, t("findWord")),
        h("input", { id: "find", name: "find", value: state.find ?? "", placeholder: t("wordHint"), autocomplete: "off" })),
      h("button", { class: "primary" }, t("show"))),
    note, box, h("p", { class: "soft hint" }, t("mapKeys")));
  await show(box, note, { model: model.name, method, size }, state.find, signal);
}

async function show(box, note, question, find, signal) {
  let found = await get("/api/map", question, signal);
  if (found.state !== "ready") {
    note.textContent = t("computing");
    draw(box, await get("/api/map", { ...question, method: "pca" }, signal), find, note, signal);
    while (found.state === "computing") {
      await pause(700, signal);
      found = await get("/api/map", question, signal);
    }
    note.textContent = found.state === "failed" ? t("mapFailed", found.reason) : "";
    if (found.state === "failed") return;
  }
  draw(box, found, find, note, signal);
}

function draw(box, found, find, note, signal) {
  const label = t("mapOf", number(found.points.length), found.model);
  const canvas = h("canvas", { class: "plane", tabindex: "0", role: "img", "aria-label": label, "data-method": found.method });
  fill(box, canvas);
  const most = Math.log(1 + (found.points[0]?.count ?? 0)) || 1;
  const points = found.points.map((point) => ({ x: point.x, y: point.y, label: point.word, weight: Math.log(1 + point.count) / most }));
  const plane = scatter(canvas, points, { labels: true, signal,
    onpick: (point) => { location.hash = link("neighbours", { word: point.label, models: found.model }); } });
  if (find && !plane.find(find)) note.textContent = t("notOnMap", find);
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
