// A graph to walk through: words repel each other, links pull like springs, and the picture settles.
// What one walked past stays, faded, until there is no more room.

import { svg } from "./dom.js";
import { t } from "./strings.js";

const MOST = 48; // words kept on the picture
const kept = new Map(); // model → { nodes, links } of the walk so far

export function wordGraph(model, answer, { walk, signal }) {
  const graph = joined(kept.get(model), answer);
  kept.set(model, graph);
  const picture = svg("svg", { class: "web", viewBox: "-300 -260 600 520", role: "group",
    "aria-label": t("graphOf", answer.word, model) });
  const lines = graph.links.map((link) => svg("line", { class: link.fresh ? "link" : "link past",
    "stroke-width": (0.6 + 2.4 * Math.max(0, link.score)).toFixed(2) }));
  const marks = graph.nodes.map((node) => nodeMark(node, `node-${model}-${node.word}`, answer.word, walk));
  picture.append(svg("g", {}, lines), svg("g", {}, marks));
  settle(graph, () => draw(graph, lines, marks, picture), signal);
  return picture;
}

function joined(before, answer) {
  const centre = before?.nodes.find((node) => node.word === answer.word);
  // A word that was not on the picture begins a new one.
  const old = centre ? before : { nodes: [], links: [] };
  const known = new Map(old.nodes.map((node) => [node.word, node]));
  const around = centre ?? { x: 0, y: 0 };
  answer.nodes.forEach((entry, i) => {
    const angle = i * 2.399963; // the golden angle spreads them evenly
    const node = known.get(entry.word) ?? { word: entry.word, x: around.x + 90 * Math.cos(angle), y: around.y + 90 * Math.sin(angle) };
    known.delete(entry.word);
    known.set(entry.word, node); // the newest last
    Object.assign(node, { score: entry.score, fresh: true, speedX: 0, speedY: 0 });
  });
  const fresh = new Set(answer.nodes.map((entry) => entry.word));
  const nodes = [...known.values()].slice(-MOST);
  for (const node of nodes) node.fresh = fresh.has(node.word);
  const byWord = new Map(nodes.map((node) => [node.word, node]));
  const pairs = new Map();
  for (const link of old.links) pairs.set(pairKey(link.from.word, link.to.word), { ...link, fresh: false });
  for (const { source, target, score } of answer.links) {
    pairs.set(pairKey(source, target), { from: byWord.get(source), to: byWord.get(target), score, fresh: true });
  }
  const links = [...pairs.values()].filter((link) => byWord.get(link.from?.word) && byWord.get(link.to?.word));
  return { nodes, links, centre: byWord.get(answer.word) };
}

const pairKey = (a, b) => (a < b ? `${a}\n${b}` : `${b}\n${a}`);

// By its id the focus stays on a word that one walks to.
function nodeMark(node, id, current, walk) {
  const here = node.word === current;
  const go = () => walk(node.word);
  const onkeydown = (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      go();
    }
  };
  const title = node.score === undefined || here ? node.word : `${node.word} ${node.score.toFixed(3)}`;
  return svg("g", { id, class: `node${here ? " here" : ""}${node.fresh ? "" : " past"}`, tabindex: "0", role: "button",
    "aria-label": title, "data-word": node.word, onclick: go, onkeydown },
  svg("title", {}, title), svg("circle", { r: here ? 9 : 5.5 }),
  svg("text", { y: here ? -15 : -10, "text-anchor": "middle" }, node.word));
}

function settle(graph, drawn, signal) {
  let heat = 1;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const frame = () => {
    for (let i = 0; i < (still ? 300 : 4) && heat > 0.02; i++, heat *= 0.985) step(graph, heat);
    drawn();
    if (heat > 0.02 && !signal.aborted) requestAnimationFrame(frame);
  };
  frame();
}

function step({ nodes, links, centre }, heat) {
  for (const node of nodes) node.forceX = node.forceY = 0;
  for (let i = 0; i < nodes.length; i++) {
    for (let j = i + 1; j < nodes.length; j++) {
      const a = nodes[i], b = nodes[j];
      const dx = a.x - b.x || 0.01 * (i - j), dy = a.y - b.y || 0.01;
      // Words are wider than high, so sideways they keep more distance.
      const square = Math.max(60, (dx * dx) / 2.2 + dy * dy);
      const push = 5200 / square;
      const length = Math.sqrt(square);
      push2(a, b, (dx / length) * push, (dy / length) * push);
    }
  }
  for (const { from, to, score, fresh } of links) {
    const dx = to.x - from.x, dy = to.y - from.y;
    const length = Math.hypot(dx, dy) || 1;
    const pull = (length - 70 - 150 * (1 - Math.max(0, score))) * (fresh ? 0.05 : 0.025);
    push2(from, to, (dx / length) * pull, (dy / length) * pull);
  }
  for (const node of nodes) {
    const home = node === centre ? 0.12 : 0.012;
    node.x += heat * (node.forceX - home * node.x);
    node.y += heat * (node.forceY - home * node.y);
  }
}

function push2(a, b, x, y) {
  a.forceX += x;
  a.forceY += y;
  b.forceX -= x;
  b.forceY -= y;
}

function draw({ nodes, links }, lines, marks, picture) {
  links.forEach((link, i) => {
    lines[i].setAttribute("x1", link.from.x.toFixed(1));
    lines[i].setAttribute("y1", link.from.y.toFixed(1));
    lines[i].setAttribute("x2", link.to.x.toFixed(1));
    lines[i].setAttribute("y2", link.to.y.toFixed(1));
  });
  nodes.forEach((node, i) => marks[i].setAttribute("transform", `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})`));
  const [left, right] = [Math.min(...nodes.map((node) => node.x)) - 50, Math.max(...nodes.map((node) => node.x)) + 50];
  const [top, bottom] = [Math.min(...nodes.map((node) => node.y)) - 36, Math.max(...nodes.map((node) => node.y)) + 20];
  const wide = picture.clientWidth || 600;
  picture.style.setProperty("--unit", Math.min(3, Math.max(1, (right - left) / wide)).toFixed(2)); // words keep their size on small screens
  picture.setAttribute("viewBox", [left, top, right - left, bottom - top].map((v) => v.toFixed(1)).join(" "));
}
