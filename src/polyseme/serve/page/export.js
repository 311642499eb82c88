// Rows and pictures as files for other programs.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { reason } from "./parts.js";
import { number, t } from "./strings.js";

const AT_ONCE = 1000; // rows asked for at a time
const MOST = 20_000; // rows that a browser is asked to hold
const FORMATS = ["csv", "tsv", "jsonl"];

export function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const anchor = h("a", { href: url, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function written(rows, format) {
  if (format === "jsonl") return rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  const columns = Object.keys(rows[0] ?? {});
  const cell = format === "csv"
    ? (value) => (/[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value)
    : (value) => value.replaceAll(/[\t\n\r]/g, " ");
  const line = (values) => `${values.map((value) => cell(String(value ?? ""))).join(format === "csv" ? "," : "\t")}\n`;
  // Spreadsheets know UTF-8 by the mark at its beginning.
  return (format === "csv" ? "\ufeff" : "") + line(columns) + rows.map((row) => line(columns.map((name) => row[name]))).join("");
}

// Buttons that collect every row of a question, page by page, and write them.
// `ask` gives a page: offset, limit → { count, rows }.
export function exportButtons(name, ask) {
  const note = h("span", { class: "soft", role: "status" });
  const save = async (format) => {
    const rows = [];
    let count = 1;
    while (rows.length < Math.min(count, MOST)) {
      const page = await ask(rows.length, AT_ONCE);
      count = page.count;
      rows.push(...page.rows);
      fill(note, t("exporting", number(rows.length), number(count)));
      if (!page.rows.length) break;
    }
    fill(note, count > MOST ? t("exportLimit", number(MOST)) : "");
    download(`${name}.${format}`, written(rows, format), "text/plain;charset=utf-8");
  };
  return h("p", { class: "export" }, h("span", { class: "soft" }, t("export")),
    FORMATS.map((format) => h("button", { type: "button", class: "small", id: `export-${format}`,
      onclick: () => save(format).catch((error) => fill(note, reason(error))) }, format.toUpperCase())), note);
}

export function pictureButton(name, canvas) {
  return h("button", { type: "button", class: "small", id: "export-picture",
    onclick: () => opaque(canvas()).toBlob((blob) => download(`${name}.png`, blob)) }, t("picture"));
}

// The picture on the page's ground: the ink of one theme cannot be read on a ground of the other.
function opaque(canvas) {
  const copy = h("canvas", { width: canvas.width, height: canvas.height });
  const context = copy.getContext("2d");
  context.fillStyle = getComputedStyle(canvas).getPropertyValue("--card").trim();
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  return copy;
}

// One hit as a row: what stands to its left, the hit, what stands to its right.
export function hitRow(line) {
  const characters = [...line.text];
  return { left: characters.slice(0, line.start).join(""), match: characters.slice(line.start, line.end).join(""),
    right: characters.slice(line.end).join("") };
}

export const pagesOf = (path, query, key, row) => async (offset, limit) => {
  const found = await get(path, { ...query, offset, limit });
  return { count: found.count, rows: found[key].map(row) };
};
