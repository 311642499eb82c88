// The API as a page to read: every question, what it asks for, and a call to copy. Made from /openapi.json.

import { get } from "../api.js";
import { callInChinese, fieldInChinese } from "../chinese.js";
import { fill, h } from "../dom.js";
import { download } from "../export.js";
import { code, waiting } from "../parts.js";
import { getLanguage, t } from "../strings.js";

export async function render(root, state, { signal }) {
  fill(root, h("h1", {}, t("apiTitle")), h("p", {}, t("apiNote")), waiting());
  const whole = await get("/openapi.json", {}, signal);
  const sections = Object.entries(whole.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, question]) => section(path, method.toUpperCase(), question, whole)));
  fill(root, h("h1", {}, t("apiTitle")), h("p", {}, t("apiNote")), sections,
    h("p", {}, h("button", { type: "button", class: "small", id: "openapi",
      onclick: () => download("openapi.json", JSON.stringify(whole, null, 2), "application/json") }, t("apiRaw"))));
}

function section(path, method, question, whole) {
  const body = question.requestBody?.content?.["application/json"]?.schema;
  const fields = body ? bodyFields(resolved(body, whole), whole) : (question.parameters ?? []).map((one) => ({
    name: one.name, required: one.required, schema: one.schema, about: one.description }));
  return h("section", { class: "endpoint" },
    h("h2", {}, h("code", {}, `${method} ${path}`)), h("p", {}, told(`${method} ${path}`, plain(question.description ?? question.summary ?? ""))),
    fields.length > 0 && h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, ["apiParameter", "apiKind", "apiDefault", "meaning"].map((key) => h("th", { scope: "col" }, t(key))))),
      h("tbody", {}, fields.map((field) => h("tr", {}, h("th", { scope: "row" }, field.name), h("td", {}, kind(field.schema, whole)),
        h("td", {}, field.required ? t("apiRequired") : JSON.stringify(field.schema?.default ?? null)),
        h("td", { class: "soft" }, meaning(field.about ?? field.schema?.description ?? ""))))))),
    h("p", { class: "soft" }, t("apiTry")), code(call(path, method, fields)));
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

const meaning = (english) => (getLanguage() === "zh" ? fieldInChinese(english) : english);

const plain = (text) => text.replaceAll("``", "");

function call(path, method, fields) {
  const value = (field) => ({ model: "NAME", index: "NAME", corpus: "NAME", word: "打", query: "打", text: "他打了个电话。", number: 0,
    sentence: "他打了个电话。", position: 1, sentences: ["他打了个电话。"], texts: ["他打了个电话。"], input: ["他打了个电话。"], a: "A", b: "B", c: "C" })[field.name] ?? "…";
  const needed = fields.filter((field) => field.required);
  if (method === "POST") {
    return `curl ${location.origin}${path} -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(Object.fromEntries(needed.map((f) => [f.name, value(f)])))}'`;
  }
  const inPath = needed.reduce((url, field) => url.replace(`{${field.name}}`, "NAME"), path);
  const query = needed.filter((field) => !path.includes(`{${field.name}}`)).map((field) => ` \\\n  --data-urlencode ${field.name}=${value(field)}`);
  return `curl -G ${location.origin}${inPath}${query.join("")}`;
}
