// How training went: one picture for each figure that was recorded, all models on the same axes.

import { get } from "../api.js";
import { fill, h, svg } from "../dom.js";
import { empty, waiting } from "../parts.js";
import { go } from "../router.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme train elmo TEXT -o elmo\npolyseme serve elmo";
const AXES = ["step", "tokens", "words", "epoch", "pass", "iteration", "seconds"]; // what a record can be counted by, best first
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [520, 260, 56, 16, 14, 34];

export async function render(root, state, { library, signal }) {
  const models = library.items.filter((item) => item.curve);
  if (!models.length) {
    fill(root, h("h1", {}, t("curvesOf")), empty(t("emptyCurve"), COMMAND));
    return;
  }
  const named = (state.models ?? "").split(",").filter((name) => models.some((item) => item.name === name));
  const chosen = named.length ? named : models.slice(0, 3).map((item) => item.name);
  const toggle = (name) => {
    const next = chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name];
    if (next.length) go("curves", { models: next.join(",") });
  };
  const charts = h("div", { class: "charts" }, waiting());
  fill(root, h("h1", {}, t("curvesOf")),
    h("fieldset", { class: "chips" }, h("legend", {}, t("models")),
      h("div", {}, models.map((item, i) => h("label", {},
        h("input", { type: "checkbox", id: `curve-${item.name}`, checked: chosen.includes(item.name), onchange: () => toggle(item.name) }),
        h("span", {}, h("span", { class: `dot fill-${i % 8}` }), item.name))))),
    charts);
  const curves = await Promise.all(chosen.map((name) => get(`/api/library/${encodeURIComponent(name)}/curve`, {}, signal)));
  if (signal.aborted) return;
  fill(charts, pictures(curves, (name) => models.findIndex((item) => item.name === name) % 8));
}

function pictures(curves, colourOf) {
  const figures = new Map(); // figure and axis → lines
  for (const { name, records } of curves) {
    const axis = AXES.find((key) => records.filter((record) => isNumber(record[key])).length > 1) ?? null;
    const keys = new Set(records.flatMap((record) => Object.keys(record).filter((key) => key !== axis && !AXES.includes(key))));
    for (const key of keys) {
      const points = records.map((record, i) => [axis ? record[axis] : i + 1, record[key]]).filter((point) => point.every(isNumber));
      const chart = `${key} ${axis}`; // models that counted otherwise get axes of their own
      if (points.length) figures.set(chart, [...(figures.get(chart) ?? []), { name, key, axis, points, colour: colourOf(name) }]);
    }
  }
  return [...figures.values()].map((lines) => chart(lines[0].key, lines));
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function chart(figure, lines) {
  const every = lines.flatMap((line) => line.points);
  const [x, y] = [scale(every.map((p) => p[0]), LEFT, WIDTH - RIGHT), scale(every.map((p) => p[1]), HEIGHT - BOTTOM, TOP)];
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${x.at(a).toFixed(1)} ${y.at(b).toFixed(1)}`).join("");
  const axis = lines[0].axis;
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("strong", {}, figure.replaceAll("_", " ")), " ", axis && h("span", { class: "soft" }, t("by", axis))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${figure}: ${lines.map(ending).join("; ")}` },
      y.ticks.map((v) => svg("g", { class: "tick" }, svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(v), y2: y.at(v) }),
        svg("text", { x: LEFT - 8, y: y.at(v) + 4, "text-anchor": "end" }, short(v)))),
      x.ticks.map((v) => svg("text", { class: "tick", x: x.at(v), y: HEIGHT - 12, "text-anchor": "middle" }, short(v))),
      lines.map((line) => [
        svg("path", { class: `line stroke-${line.colour}`, d: path(line.points) }),
        line.points.length < 40 && line.points.map(([a, b]) =>
          svg("circle", { class: `fill-${line.colour}`, cx: x.at(a), cy: y.at(b), r: 3 }, svg("title", {}, `${line.name} ${short(a)}: ${short(b)}`)))])),
    h("p", { class: "soft legend" }, lines.map((line) => h("span", {}, h("span", { class: `dot fill-${line.colour}` }), ending(line)))));
}

const ending = (line) => `${line.name}: ${short(line.points.at(-1)[1])}`;

function scale(values, from, to) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (low === high) [low, high] = [low - Math.abs(low || 1) * 0.05, high + Math.abs(high || 1) * 0.05];
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return { at: (v) => from + ((v - low) / (high - low)) * (to - from), ticks };
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${number(value / 1e6, 2)}M`;
  if (size >= 1e4) return `${number(value / 1e3, 1)}k`;
  return size >= 1e-3 || size === 0 ? number(value, size < 1 ? 4 : size < 100 ? 3 : 1) : value.toExponential(1);
}
