// How training went: one picture for each figure that was recorded, all models on the same axes.

import { get } from "../api.js";
import { fill, h, svg } from "../dom.js";
import { empty, segmented, waiting } from "../parts.js";
import { go } from "../router.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme train elmo TEXT -o elmo\npolyseme serve elmo";
const COUNTS = ["step", "tokens", "words", "epoch", "pass", "iteration", "seconds"]; // what a record is counted by, no figures
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
    go("curves", { ...state, models: (next.length ? next : chosen).join(",") }); // the last one cannot be taken away
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
  const axes = axesOf(curves);
  const axis = axes.includes(state.axis) ? state.axis : axes[0];
  charts.before(axes.length > 1 ? segmented({ id: "axis", label: t("axisChoice"), value: axis, options: axes.map((key) => [key, t(`axis_${key}`)]),
    onchange: (next) => go("curves", { models: chosen.join(","), axis: next }, { replace: true }) }) : "");
  fill(charts, pictures(curves, axis, (name) => models.findIndex((item) => item.name === name) % 8));
}

// Every model on the same axis: time, or the words it has read, or how far its training was.
function pictures(curves, axis, colourOf) {
  const figures = new Map(); // figure → lines
  for (const { name, records } of curves) {
    const along = placesOf(records, axis);
    const keys = new Set(records.flatMap((record) => Object.keys(record).filter((key) => !COUNTS.includes(key))));
    for (const key of keys) {
      const points = records.map((record, i) => [along[i], record[key]]).filter((point) => point.every(isNumber));
      if (points.length) figures.set(key, [...(figures.get(key) ?? []), { name, key, axis, points, colour: colourOf(name) }]);
    }
  }
  return [...figures.values()].map((lines) => chart(lines[0].key, lines));
}

const AXIS = { seconds: ["seconds"], tokens: ["tokens", "words"] };

function placesOf(records, axis) {
  const known = AXIS[axis]?.find((key) => records.filter((record) => isNumber(record[key])).length > 1);
  if (known) return records.map((record) => record[known]);
  const own = COUNTS.find((key) => records.filter((record) => isNumber(record[key])).length > 1);
  const values = records.map((record, i) => (own ? record[own] : i + 1));
  const last = Math.max(...values.filter(isNumber)) || 1;
  return values.map((value) => value / last);
}

// The axes that all chosen models have been counted by; the share of the training they all have.
function axesOf(curves) {
  const has = (records, keys) => keys.some((key) => records.filter((record) => isNumber(record[key])).length > 1);
  return [...Object.keys(AXIS).filter((axis) => curves.every(({ records }) => has(records, AXIS[axis]))), "share"];
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function chart(figure, lines) {
  const every = lines.flatMap((line) => line.points);
  const [x, y] = [scale(every.map((p) => p[0]), LEFT, WIDTH - RIGHT), scale(every.map((p) => p[1]), HEIGHT - BOTTOM, TOP)];
  const path = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${x.at(a).toFixed(1)} ${y.at(b).toFixed(1)}`).join("");
  const axis = lines[0].axis;
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("strong", {}, titled(figure)), " ", h("span", { class: "soft" }, t("by", t(`axis_${axis}`)))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `${titled(figure)}: ${lines.map(ending).join("; ")}` },
      y.ticks.map((v) => svg("g", { class: "tick" }, svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y.at(v), y2: y.at(v) }),
        svg("text", { x: LEFT - 8, y: y.at(v) + 4, "text-anchor": "end" }, short(v)))),
      x.ticks.map((v) => svg("text", { class: "tick", x: x.at(v), y: HEIGHT - 12, "text-anchor": "middle" }, short(v))),
      lines.map((line) => [
        svg("path", { class: `line stroke-${line.colour}`, d: path(line.points) }),
        line.points.length < 40 && line.points.map(([a, b]) =>
          svg("circle", { class: `fill-${line.colour}`, cx: x.at(a), cy: y.at(b), r: 3 }, svg("title", {}, `${line.name} ${short(a)}: ${short(b)}`)))])),
    h("p", { class: "soft legend" }, lines.map((line) => h("span", {}, h("span", { class: `dot fill-${line.colour}` }), ending(line)))));
}

const titled = (figure) => t(`figure_${figure}`, figure.replaceAll("_", " "));

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
