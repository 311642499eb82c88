// The pieces that several views share.

import { get, takeToken } from "./api.js";
import { arrowKeys, fill, h } from "./dom.js";
import { link } from "./router.js";
import { errorInChinese } from "./chinese.js";
import { getLanguage, number, t } from "./strings.js";

export const ofKind = (library, kind) => library.items.filter((item) => item.kind === kind);

// A word field that completes from the model's vocabulary, the frequent words first.
export function wordField({ id, label, value, model, signal, big = false }) {
  const options = h("datalist", { id: `${id}-options` });
  const complete = async (event) => {
    const prefix = event.target.value.trim();
    if (!model || !prefix) return;
    try {
      const found = await get("/api/words", { model, prefix, limit: 12 }, signal);
      if (event.target.value.trim() === prefix) fill(options, found.words.map((entry) => h("option", { value: entry.word })));
    } catch { /* completion is a help, not a need */ }
  };
  return h("label", { class: big ? "field big" : "field" }, h("span", {}, label),
    h("input", { id, name: id, value: value ?? "", list: `${id}-options`, placeholder: t("wordHint"), autocomplete: "off",
      spellcheck: "false", maxlength: 200, oninput: complete }), options);
}

export function choice({ id, label, options, value, onchange }) {
  return h("label", { class: "field" }, h("span", {}, label),
    h("select", { id, name: id, onchange: (event) => onchange(event.target.value) },
      options.map(([key, shown]) => h("option", { value: key, selected: String(key) === String(value) }, shown))));
}

// One of a few, as buttons side by side.
export function segmented({ id, label, options, value, onchange }) {
  return h("fieldset", { class: "segmented" }, h("legend", {}, label),
    h("div", {}, options.map(([key, shown]) => h("label", {},
      h("input", { type: "radio", id: `${id}-${key}`, name: id, value: key, checked: key === value, onchange: () => onchange(key) }),
      h("span", {}, shown)))));
}

// One to three models as chips; the last one cannot be taken away.
export function modelChips({ models, chosen, onchange }) {
  const toggle = (name) => {
    const next = chosen.includes(name) ? chosen.filter((other) => other !== name) : [...chosen, name].slice(-3);
    onchange(next.length ? next : chosen);
  };
  return h("fieldset", { class: "chips" }, h("legend", {}, t("modelsChoice")),
    h("div", {}, models.map((item) => h("label", {},
      h("input", { type: "checkbox", id: `chip-${item.name}`, checked: chosen.includes(item.name), onchange: () => toggle(item.name) }),
      h("span", {}, item.name)))));
}

export function chosenModels(models, state, most = 3) {
  const named = (state.models ?? "").split(",").filter((name) => models.some((item) => item.name === name));
  return named.length ? named.slice(0, most) : models.slice(0, Math.min(2, most)).map((item) => item.name);
}

// The method or the task of a model, the task in the language of the page.
export const methodOf = (item) => item.method && t(`value_${item.method}`, item.method);

export function columnHead(item) {
  const facts = [methodOf(item), item.dim && t("homeDim", item.dim), item.words && t("headWords", number(item.words))].filter(Boolean).join(" · ");
  return h("header", { class: "column-head" }, h("h3", {}, h("a", { href: link("models", { name: item.name }) }, item.name)),
    h("span", { class: "soft" }, facts));
}

// Words with their scores; `shared` are the words that another column has too.
export function scoreList(entries, { href, shared = new Set(), lists }) {
  if (!entries.length) return h("p", { class: "soft" }, t("nothing"));
  const rows = entries.map(({ word, score }) => h("li", { class: shared.has(word) ? "shared" : null, "data-word": word },
    h("a", { href: href(word) },
      h("span", { class: "word" }, word),
      h("span", { class: "bar", vars: { "--share": Math.max(0, score).toFixed(3) } }),
      h("span", { class: "score" }, score.toFixed(3)))));
  const list = h("ol", { class: "scores" }, rows);
  const together = (event) => {
    const word = event.target.closest("li")?.dataset.word;
    for (const row of document.querySelectorAll(".scores li")) row.classList.toggle("lit", row.dataset.word === word);
  };
  list.addEventListener("mouseover", together);
  list.addEventListener("focusin", together);
  return arrowKeys(list, lists);
}

export function wordsInSeveral(columns) {
  const seen = new Map();
  for (const entries of columns) for (const { word } of entries ?? []) seen.set(word, (seen.get(word) ?? 0) + 1);
  return new Set([...seen].filter(([, times]) => times > 1).map(([word]) => word));
}

// Whether no space stands next to a character: Chinese, Japanese, Thai, Lao, Burmese, Khmer; not Korean.
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Myanmar}\p{Script=Khmer}\u3000-\u303f\uff00-\uff9f\uffe0-\uffef]/u;
export const isUnspaced = (character) => UNSPACED.test(character);

// Two sentences in a row, with a blank between them unless one is written without spaces where they meet.
const inRow = (a, b) => a + (a && b && ![[...a].at(-1), [...b][0]].some((one) => isUnspaced(one) || one === " ") ? " " : "") + b;

// A hit in its sentence, the word in the middle, and what stands around the sentence where that is known.
export function kwic(hit, { href, score = true, mark = "", source = false, faded = false }) {
  const characters = [...hit.text];
  const before = inRow(hit.before ?? "", characters.slice(0, hit.start).join(""));
  const after = inRow(characters.slice(hit.end).join(""), hit.behind ?? "");
  return h("li", { class: faded ? "kwic faded" : "kwic" }, h("a", { href, title: source ? `${hit.source}: ${hit.text}` : hit.text },
    h("span", { class: "before" }, h("bdi", {}, before)),
    h("mark", { class: mark }, characters.slice(hit.start, hit.end).join("")),
    h("span", { class: "after" }, after),
    hit.tag && h("span", { class: "tag" }, hit.tag),
    source && h("span", { class: "source" }, hit.source),
    score && h("span", { class: "score" }, hit.score.toFixed(3))));
}

// What the tags that are shown stand for, as far as the server knows.
export function tagLegend(item, tags) {
  const shown = [...new Set(tags)].filter((tag) => item.tags?.[tag]);
  return shown.length > 0 && h("p", { class: "legend soft tags" }, h("span", {}, t("tagsLegend")),
    shown.map((tag) => h("span", {}, h("span", { class: "tag" }, tag), " ", item.tags[tag][getLanguage() === "zh" ? 1 : 0])));
}

export const hitLink = (index, hit) => link("sentence", { index, number: hit.sentence, at: hit.token });

// An empty view shows the command that fills it.
export function empty(message, command) {
  return h("section", { class: "empty" }, h("p", {}, message), command && code(command));
}

export function code(text) {
  const label = h("span", {}, t("copy"));
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const range = document.createRange();
      range.selectNodeContents(block);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    label.textContent = t("copied");
    setTimeout(() => { label.textContent = t("copy"); }, 1500);
  };
  const block = h("pre", { tabindex: "0" }, h("code", {}, text));
  return h("div", { class: "code" }, block, h("button", { type: "button", class: "copy", onclick: copy }, label));
}

export function problem(error) {
  return h("p", { class: "problem", role: "alert" }, h("strong", {}, t("failed")), " ", reason(error));
}

// What went wrong, in the language of the page; the server's own line stands behind it where it says more.
export function reason(error) {
  if (error instanceof TypeError) return t("unreachable");
  const own = t(`error_${error.type}`, "");
  if (getLanguage() !== "zh" || !own) return own || error.message;
  return errorInChinese(error.message) ?? (VAGUE.includes(error.type) ? `${own}（${error.message}）` : own);
}

const VAGUE = ["unknown_word", "unknown_name", "option_error", "invalid_request"]; // what is wrong is only in the server's words

// A button for the next page, which comes once however often it is clicked; beside it what went wrong.
export function moreButton(load) {
  const note = h("span", { role: "status" });
  let asked = false;
  const click = async () => {
    if (asked) return;
    asked = true;
    fill(note);
    await load().catch((error) => error.name !== "AbortError" && fill(note, reason(error)));
    asked = false;
  };
  return { element: h("button", { type: "button", class: "small", id: "more", onclick: click }, t("more")), note };
}

export const waiting = () => h("p", { class: "soft waiting" }, t("loading"));

export function tokenForm(again, error) {
  const send = (event) => {
    event.preventDefault();
    takeToken(new FormData(event.target).get("token"));
    again();
  };
  return h("form", { class: "empty", onsubmit: send }, h("h2", {}, t("tokenWanted")), h("p", {}, t("tokenHint")),
    error?.type === "wrong_token" && problem(error),
    h("label", { class: "field" }, h("span", {}, t("token")),
      h("input", { name: "token", id: "token", type: "password", autocomplete: "off", required: true, pattern: "[\\x21-\\x7e]+", title: t("tokenCharacters") })),
    h("button", { class: "primary" }, t("enter")));
}

// The index that was made of a text: itself, or the one whose text has as many words and sentences.
export function indexOf(library, item) {
  const same = (other) => other.text?.tokens === item.text?.tokens && other.text?.sentences === item.text?.sentences;
  return item.kind === "index" ? item : item.text && ofKind(library, "index").find(same);
}
