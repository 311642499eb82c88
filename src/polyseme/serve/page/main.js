// The page: header, language, theme, and which view is on.

import { get, remember, takeToken } from "./api.js";
import { announce, fill, h } from "./dom.js";
import { decoded, here, link } from "./router.js";
import { getLanguage, LANGUAGES, setLanguage, t } from "./strings.js";
import { problem, tokenForm } from "./parts.js";
import * as analogy from "./views/analogy.js";
import * as attention from "./views/attention.js";
import * as concordance from "./views/concordance.js";
import * as curves from "./views/curves.js";
import * as api from "./views/description.js";
import * as home from "./views/home.js";
import * as map from "./views/map.js";
import * as models from "./views/models.js";
import * as neighbours from "./views/neighbours.js";
import * as predict from "./views/predict.js";
import * as search from "./views/search.js";
import * as senses from "./views/senses.js";
import * as sentence from "./views/sentence.js";

const VIEWS = { home, concordance, senses, sentence, neighbours, search, attention, analogy, map, predict, curves, models, api };

const main = document.getElementById("main");
let library = null;
let current = new AbortController();
let shown = ""; // the view that is on

function startLanguage() {
  const asked = new URLSearchParams(location.search).get("lang") ?? remember("language");
  setLanguage(asked ?? navigator.language);
}

function toggleLanguage() {
  const next = LANGUAGES[1 - LANGUAGES.indexOf(getLanguage())];
  setLanguage(next);
  remember("language", next);
  const address = new URL(location.href);
  address.searchParams.set("lang", next);
  history.replaceState(null, "", address);
  render();
}

function toggleTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  remember("theme", root.dataset.theme);
  window.dispatchEvent(new Event("themechange"));
}

function header(view) {
  const tabs = Object.keys(VIEWS).filter((name) => name !== "api").map((name) => // that stands at the foot of the page
    h("a", { href: link(name), class: "tab", "data-text": t(name), id: `tab-${name}`, "aria-current": name === view ? "page" : null }, t(name)));
  fill(document.getElementById("header"),
    h("a", { class: "mark", href: "#/" }, h("img", { src: "/page/icon.svg", alt: "", width: 26, height: 26 }),
      h("span", { class: "name" }, "polyseme"), h("span", { class: "tagline" }, t("tagline"))),
    h("nav", { "aria-label": t("views") }, tabs),
    h("div", { class: "switches" },
      h("button", { type: "button", id: "language", onclick: toggleLanguage, lang: getLanguage() === "zh" ? "en" : "zh-Hans" }, t("language")),
      h("button", { type: "button", id: "theme", onclick: toggleTheme, "aria-label": t("theme"), title: t("theme") }, "◐")));
  document.querySelector(".tab[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  fill(document.getElementById("footer"), h("span", {}, `polyseme ${library?.version ?? ""}`),
    h("a", { href: link("api"), id: "api" }, t("apiTitle")));
  document.getElementById("skip").textContent = t("skip");
}

async function render() {
  current.abort();
  current = new AbortController();
  const signal = current.signal;
  const { view: named, state } = here();
  const focused = document.activeElement?.id;
  const view = named || "home";
  header(view);
  if (!library && !(await openLibrary(signal))) return;
  if (!Object.hasOwn(VIEWS, view)) {
    fill(main, h("p", { class: "empty", "data-ready": "yes" }, t("wrongPage")));
    return;
  }
  document.title = `${t(view)} · polyseme`;
  const typed = view === shown ? drafts() : new Map();
  shown = view;
  const root = h("div", { class: `view ${view}` });
  main.replaceChildren(root);
  const drawing = (async () => VIEWS[view].render(root, state, { library, signal }))();
  putBack(typed, focused);
  try {
    await drawing;
  } catch (error) {
    if (error.name !== "AbortError") root.append(problem(error));
  }
  if (signal.aborted) return;
  putBack(typed, focused);
  root.dataset.ready = "yes";
  announce(document.title);
}

// What was typed but not sent: field → the value it had, and the one it has.
function drafts() {
  const fields = [...main.querySelectorAll("input:not([type]), textarea")].filter((field) => field.value !== field.defaultValue);
  return new Map(fields.map((field) => [field.id, [field.defaultValue, field.value]]));
}

// Drafts come back where the address says nothing new, and the focus, unless it was taken elsewhere meanwhile.
function putBack(typed, focused) {
  for (const [id, [before, draft]] of typed) {
    const field = document.getElementById(id);
    if (!field) continue;
    if (field.defaultValue === before && field.value === before) field.value = draft;
    typed.delete(id);
  }
  if (document.activeElement === document.body && focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

async function openLibrary(signal) {
  try {
    library = await get("/api/library", {}, signal);
    header(here().view || "home");
    return true;
  } catch (error) {
    if (error.name !== "AbortError") fill(main, error.status === 401 ? tokenForm(render, error) : problem(error));
    return false;
  }
}

function tokenFromAddress() {
  const found = location.hash.match(/^#token=(.+)$/);
  if (!found) return;
  takeToken(decoded(found[1]));
  history.replaceState(null, "", location.pathname + location.search);
}

function arrive() {
  tokenFromAddress();
  render();
}

startLanguage();
window.addEventListener("hashchange", arrive);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is that of the view
  main.focus();
});
arrive();
