// Points on a canvas: zoom with the wheel or two fingers, move by dragging, look under the pointer, all by keys too.

import { withModifier } from "./dom.js";

const NEAR = 14; // pixels within which a point is meant

// `points` are { x, y, label, group, weight } with x, y within [-1, 1]; `labels` says whether words are written.
// `onpick` gets a clicked point, `onhover` the one under the pointer or null, `onlasso` all within a line that was drawn
// with Shift. A finger selects a point with its first tap and picks it with the second.
/** The end of the name of a text that tells what fingers do instead of mouse and keys. */
export const touch = () => (matchMedia("(pointer: coarse)").matches ? "Touch" : "");

export function scatter(canvas, points, { labels = false, onpick = () => {}, onhover = () => {}, onlasso = null, signal }) {
  const view = { scale: 1, x: 0, y: 0 };
  const picture = { canvas, points, labels, view, lit: null, found: null, group: null, keep: null, lasso: null, width: 0, height: 0 };
  const redraw = () => requestAnimationFrame(() => draw(picture));
  const fit = () => {
    const { width, height } = canvas.getBoundingClientRect();
    const dense = window.devicePixelRatio || 1;
    Object.assign(picture, { width, height, dense });
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    redraw();
  };
  const observer = new ResizeObserver(fit);
  observer.observe(canvas);
  signal.addEventListener("abort", () => observer.disconnect());
  window.addEventListener("themechange", redraw, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw, { signal });
  movement(picture, redraw, { onpick, onhover, onlasso });
  fit();
  return {
    find(label) { // bring a word into view
      const point = points.find((candidate) => candidate.label === label) ?? null;
      picture.found = point;
      if (point) {
        view.scale = Math.max(view.scale, 3);
        const [wide, high] = reach(picture);
        [view.x, view.y] = [-point.x * wide, -point.y * high];
      }
      redraw();
      return point;
    },
    only(group) { // let one group stand out; null for all
      picture.group = group;
      redraw();
    },
    keep(wanted) { // show the points of which it says yes; null for all
      picture.keep = wanted;
      redraw();
    },
  };
}

// Pixels from the middle to x = 1 and y = 1. The longer side of a canvas is used up to one and a half times the shorter.
function reach({ width, height, view }) {
  const short = Math.max(1, Math.min(width, height));
  return [width, height].map((side) => (short / 2 - 24) * Math.min(1.5, side / short) * view.scale);
}

function place(picture, point) {
  const [wide, high] = reach(picture);
  return [picture.width / 2 + picture.view.x + point.x * wide, picture.height / 2 + picture.view.y + point.y * high];
}

function draw(picture) {
  const { canvas, points, width, height, dense, group } = picture;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const colour = (name) => style.getPropertyValue(name).trim();
  const palette = Array.from({ length: 8 }, (_, i) => colour(`--c${i}`));
  context.setTransform(dense, 0, 0, dense, 0, 0);
  context.clearRect(0, 0, width, height);
  for (const point of points) {
    const [x, y] = place(picture, point);
    if (x < -20 || y < -20 || x > width + 20 || y > height + 20) continue;
    const faded = group !== null && point.group !== group;
    if (picture.keep && !picture.keep(point)) continue;
    context.globalAlpha = faded ? 0.12 : point.faint ? 0.3 : picture.labels ? 0.55 : 0.8;
    context.fillStyle = point.group === undefined ? colour("--accent") : palette[point.group % 8];
    context.beginPath();
    context.arc(x, y, picture.labels ? 2.2 + 1.8 * (point.weight ?? 0) : 4.2, 0, 2 * Math.PI);
    context.fill();
  }
  context.globalAlpha = 1;
  if (picture.labels) writeLabels(picture, context, colour);
  for (const special of new Set([picture.found, picture.lit])) if (special) ring(picture, context, special, colour);
  if (picture.lasso) drawLine(context, picture.lasso, colour("--focus"));
}

function drawLine(context, line, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  line.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
  context.stroke();
}

// Whether a place lies within a closed line: it is crossed an odd number of times on the way out.
function inside([x, y], line) {
  let odd = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
    const [[ax, ay], [bx, by]] = [line[i], line[j]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
  }
  return odd;
}

// Words in the order given (frequent first), each where it covers no earlier one.
function writeLabels(picture, context, colour) {
  const { points, width, height, view } = picture;
  const cell = 8;
  const columns = Math.ceil(width / cell) + 1;
  const taken = new Set();
  context.textAlign = "center";
  context.textBaseline = "bottom";
  context.fillStyle = colour("--ink");
  const own = new Set([picture.found, picture.lit]); // these are written by their ring
  for (const point of points) {
    const [x, y] = place(picture, point);
    if (x < 0 || y < 0 || x > width || y > height || own.has(point) || (picture.keep && !picture.keep(point))) continue;
    const size = Math.round(11 + 6 * (point.weight ?? 0) + Math.min(2, view.scale / 4));
    context.font = `${size}px ${colour("--serif")}`;
    const half = context.measureText(point.label).width / 2 + 3;
    const cells = [];
    for (let cx = Math.floor((x - half) / cell); cx <= Math.floor((x + half) / cell); cx++) {
      for (let cy = Math.floor((y - size - 6) / cell); cy <= Math.floor((y - 2) / cell); cy++) cells.push(cy * columns + cx);
    }
    if (cells.some((key) => taken.has(key))) continue;
    cells.forEach((key) => taken.add(key));
    context.fillText(point.label, x, y - 4);
  }
}

function ring(picture, context, point, colour) {
  const [x, y] = place(picture, point);
  context.strokeStyle = colour("--ink");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, 7, 0, 2 * Math.PI);
  context.stroke();
  if (!picture.labels || !point.label) return;
  context.font = `600 17px ${colour("--serif")}`;
  context.textAlign = "center";
  context.textBaseline = "bottom";
  const half = context.measureText(point.label).width / 2 + 7;
  context.fillStyle = colour("--card");
  context.globalAlpha = 0.94;
  context.fillRect(x - half, y - 34, 2 * half, 25);
  context.globalAlpha = 1;
  context.fillStyle = colour("--accent");
  context.fillText(point.label, x, y - 12);
}

function nearest(picture, x, y) {
  let best = null, least = NEAR * NEAR;
  for (const point of picture.points) {
    if ((picture.group !== null && point.group !== picture.group) || (picture.keep && !picture.keep(point))) continue;
    const [px, py] = place(picture, point);
    const square = (px - x) ** 2 + (py - y) ** 2;
    if (square < least) [best, least] = [point, square];
  }
  return best;
}

function movement(picture, redraw, { onpick, onhover, onlasso }) {
  const { canvas, view } = picture;
  const fingers = new Map();
  let moved = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const zoom = (factor, x = picture.width / 2, y = picture.height / 2) => {
    const next = Math.min(60, Math.max(0.5, view.scale * factor));
    const ratio = next / view.scale;
    const fromX = x - picture.width / 2, fromY = y - picture.height / 2;
    Object.assign(view, { scale: next, x: fromX - (fromX - view.x) * ratio, y: fromY - (fromY - view.y) * ratio });
    redraw();
  };
  const hover = (x, y) => {
    const point = nearest(picture, x, y);
    if (point === picture.lit) return;
    picture.lit = point;
    canvas.classList.toggle("over", Boolean(point));
    onhover(point);
    redraw();
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.0015), ...at(event));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, at(event));
    moved = 0;
    if (onlasso && event.shiftKey) picture.lasso = [at(event)];
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = at(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      hover(x, y);
      return;
    }
    if (picture.lasso) {
      picture.lasso.push([x, y]);
      redraw();
      return;
    }
    const spread = span(fingers);
    fingers.set(event.pointerId, [x, y]);
    moved += Math.hypot(x - before[0], y - before[1]);
    if (fingers.size === 2 && spread > 0) zoom(span(fingers) / spread, x, y);
    else Object.assign(view, { x: view.x + x - before[0], y: view.y + y - before[1] });
    redraw();
  });
  const lift = (event) => {
    const alone = fingers.size === 1;
    if (picture.lasso) {
      const line = picture.lasso;
      picture.lasso = null;
      fingers.delete(event.pointerId);
      onlasso(picture.points.filter((point) => (!picture.keep || picture.keep(point)) && inside(place(picture, point), line)));
      redraw();
      return;
    }
    if (!fingers.delete(event.pointerId) || !alone || moved > 5 || event.type !== "pointerup") return;
    const point = nearest(picture, ...at(event));
    const selected = point === picture.lit;
    hover(...at(event));
    if (point && (event.pointerType !== "touch" || selected)) onpick(point);
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") hover(-1e6, -1e6);
  });
  const choose = (step) => { // the points in sight, from left to right
    const seen = picture.points.filter((point) => {
      const [x, y] = place(picture, point);
      return (!picture.keep || picture.keep(point)) && x >= 0 && y >= 0 && x <= picture.width && y <= picture.height;
    }).sort((a, b) => a.x - b.x || a.y - b.y);
    if (!seen.length) return;
    const next = seen[(seen.indexOf(picture.lit) + step + seen.length + (picture.lit || step > 0 ? 0 : 1)) % seen.length];
    picture.lit = next;
    onhover(next);
  };
  canvas.addEventListener("keydown", (event) => {
    if (withModifier(event)) return;
    const step = 50, letter = event.key.toLowerCase();
    const shift = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
    if (shift) Object.assign(view, { x: view.x + shift[0], y: view.y + shift[1] });
    else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (letter === "n" || letter === "p") choose(letter === "n" ? 1 : -1);
    else if (event.key === "Enter" && picture.lit) onpick(picture.lit);
    else if (event.key === "0") Object.assign(view, { scale: 1, x: 0, y: 0 });
    else return;
    event.preventDefault();
    redraw();
  });
}

function span(fingers) {
  const [a, b] = [...fingers.values()];
  return b ? Math.hypot(a[0] - b[0], a[1] - b[1]) : 0;
}
