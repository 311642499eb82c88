// The API as a page to read: every question, what it asks for, and a call to copy. Made from /openapi.json.

import { get } from "../api.js";
import { callInChinese, fieldInChinese, nameMeaning } from "../chinese.js";
import { fill, h } from "../dom.js";
import { download } from "../export.js";
import { code, ofKind, waiting } from "../parts.js";
import { curlGet, curlPost } from "../shell.js";
import { getLanguage, t } from "../strings.js";

export async function render(root, state, { library, signal }) {
  fill(root, h("h1", {}, t("apiTitle")), h("p", {}, t("apiNote")), waiting());
  const whole = await get("/openapi.json", {}, signal);
  const sections = Object.entries(whole.paths).flatMap(([path, methods]) =>
    Object.entries(methods).filter(([, question]) => !question.deprecated)
      .map(([method, question]) => section(path, method.toUpperCase(), question, whole, library)));
  fill(root, h("h1", {}, t("apiTitle")), h("p", {}, t("apiNote")), sections,
    h("p", {}, h("button", { type: "button", class: "small", id: "openapi",
      onclick: () => download("openapi.json", JSON.stringify(whole, null, 2), "application/json") }, t("apiRaw"))));
}

function section(path, method, question, whole, library) {
  const body = question.requestBody?.content?.["application/json"]?.schema;
  const fields = body ? bodyFields(resolved(body, whole), whole) : (question.parameters ?? []).map((one) => ({
    name: one.name, required: one.required, schema: one.schema, about: one.description }));
  return h("section", { class: "endpoint" },
    h("h2", {}, h("code", {}, `${method} ${path}`)), h("p", {}, told(`${method} ${path}`, plain(question.description ?? question.summary ?? ""))),
    fields.length > 0 && h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["apiParameter", "apiKind", "apiDefault", "meaning"].map((key) => h("th", { scope: "col" }, t(key))))),
      h("tbody", {}, fields.map((field) => h("tr", {}, h("th", { scope: "row" }, field.name), h("td", {}, kind(field.schema, whole)),
        h("td", {}, field.required ? t("apiRequired") : JSON.stringify(field.schema?.default ?? null)),
        h("td", { class: "soft" }, meaning(field))))))),
    h("p", { class: "soft" }, t("apiTry")), code(call(path, method, fields, library)));
}

const resolved = (schema, whole) => (schema?.$ref ? whole.components.schemas[schema.$ref.split("/").at(-1)] : schema ?? {});

function bodyFields(schema) {
  const needed = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, one]) => ({ name, required: needed.has(name), schema: one, about: one.description }));
}

function kind(schema, whole) {
  const one = resolved(schema, whole);
  if (one.enum) return one.enum.join(" | ");
  if (one.anyOf) return one.anyOf.map((each) => kind(each, whole)).join(" | ");
  if (one.type === "array") return `[${kind(one.items, whole)}]`;
  return one.const ?? one.type ?? "";
}

const told = (call, english) => (getLanguage() === "zh" ? callInChinese(call, english) : english);

function meaning({ name, about, schema }) {
  const english = about ?? schema?.description;
  if (!english) return nameMeaning(name, getLanguage());
  return getLanguage() === "zh" ? fieldInChinese(english) : english;
}

const plain = (text) => text.replaceAll("``", "");

// What is loaded and answers a call; where nothing does, a name to put in.
function loadedFor(path, library) {
  const kinds = { "/api/predict": ["task"], "/api/encode/tokens": ["contexts", "words"], "/api/attention": ["contexts"], "/api/tokens": ["words", "contexts"],
    "/api/encode/texts": ["sentences", "contexts", "words"], "/v1/embeddings": ["sentences", "contexts", "words"], "/api/texts/search": ["words", "contexts", "sentences"] };
  const first = (...names) => names.flatMap((kind) => ofKind(library, kind))[0];
  const model = path === "/api/attention" ? library.items.find((item) => item.attention) : first(...(kinds[path] ?? ["words"]));
  return { model, index: first("index"), corpus: first("corpus", "index"), texts: first("texts", "corpus") };
}

function call(path, method, fields, library) {
  const loaded = loadedFor(path, library);
  const words = (loaded.index ?? loaded.corpus ?? loaded.model)?.examples ?? [];
  const near = loaded.model?.examples ?? words;
  const word = (fields.some(({ name }) => name === "model") ? near : words)[0] ?? t("wordExample");
  const name = (key) => loaded[key]?.name ?? "NAME";
  const sentence = path === "/api/same-sense" ? [word] : t("sentenceExample");
  const values = { model: name("model"), index: name("index"), corpus: name("corpus"), name: library.items[0]?.name ?? "NAME", word, query: word,
    text: sentence, number: 0, sentence, position: 0, sentences: [sentence], input: [sentence], a: near[0] ?? "A", b: near[1] ?? "B", c: near[2] ?? "C",
    texts: path === "/api/texts/search" ? name("texts") : [sentence] };
  const needed = fields.filter((field) => field.required || (path === "/api/predict" && field.name === "texts") || (path === "/api/same-sense" && field.name === "position"));
  const asked = Object.fromEntries(needed.filter((f) => !path.includes(`{${f.name}}`)).map((f) => [f.name, values[f.name] ?? "…"]));
  return method === "POST" ? curlPost(path, asked) : curlGet(path.replace("{name}", encodeURIComponent(values.name)), asked);
}
