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

function startLanguage() {
  const asked = new URLSearchParams(location.search).get("lang") ?? remember("language");
  const wanted = asked ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
  setLanguage(wanted);
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
  const { view: named, state } = here();
  const focused = document.activeElement?.id;
  const view = named || "home";
  header(view);
  if (!library && !(await openLibrary())) return;
  if (!Object.hasOwn(VIEWS, view)) {
    fill(main, h("p", { class: "empty", "data-ready": "yes" }, t("wrongPage")));
    return;
  }
  document.title = `${t(view)} · polyseme`;
  const signal = current.signal;
  const root = h("div", { class: `view ${view}` });
  main.replaceChildren(root);
  try {
    await VIEWS[view].render(root, state, { library, signal });
  } catch (error) {
    if (error.name !== "AbortError") root.append(problem(error));
  }
  if (signal.aborted) return;
  const again = focused && document.getElementById(focused);
  if (again && document.activeElement !== again) again.focus({ preventScroll: true });
  root.dataset.ready = "yes";
  announce(document.title);
}

async function openLibrary() {
  try {
    library = await get("/api/library");
    header(here().view || "home");
    return true;
  } catch (error) {
    fill(main, error.status === 401 ? tokenForm(render, error) : problem(error));
    return false;
  }
}

function tokenFromAddress() {
  const found = location.hash.match(/^#token=(.+)$/);
  if (!found) return;
  takeToken(decoded(found[1]));
  history.replaceState(null, "", location.pathname + location.search);
}

startLanguage();
tokenFromAddress();
window.addEventListener("hashchange", render);
render();
