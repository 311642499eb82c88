// What a task's model says: labels with probabilities, marked entities, the answer in its passage, alternatives in the
// order of their probabilities; attention as shades.

import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { choice, columnHead, empty, isUnspaced, problem, waiting } from "../parts.js";
import { go } from "../router.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme fit classify --train texts.tsv -o model\npolyseme serve model";
const MOST_LABELS = 12;
const ROWS = { passage: 5, alternatives: 4 }; // of fields that hold several lines; Enter sends the others

// Of each task: the fields of its form, and the question they make.
const TASKS = {
  classify: { fields: [["text", "area"]], question: ({ text }) => ({ texts: [text] }) },
  pair: { fields: [["first", "line"], ["second", "line"]], question: ({ first, second }) => ({ pairs: [[first, second]] }) },
  tag: { fields: [["text", "area"]], question: ({ text }) => ({ sentences: [text] }) },
  span: { fields: [["passage", "area"], ["question", "line"]], question: ({ passage, question }) => ({ passages: [{ passage, question }] }) },
  choice: { fields: [["context", "area"], ["alternatives", "lines"]],
    question: ({ context, alternatives }) => ({ choices: [{ context, alternatives: alternatives.split(/\r?\n/).map((one) => one.trim()).filter(Boolean) }] }) },
};

export async function render(root, state, { library, signal }) {
  const models = library.items.filter((item) => item.task);
  if (!models.length) {
    fill(root, h("h1", {}, t("predict")), empty(t("emptyTask"), COMMAND));
    return;
  }
  const model = models.find((item) => item.name === state.model) ?? models[0];
  const task = TASKS[model.task];
  const answer = h("section", { class: "column answer", "aria-live": "polite" });
  fill(root, h("h1", { class: "unseen" }, t("predict")), form(models, model, task, state), answer);
  if (!task.fields.every(([name]) => state[name])) {
    fill(answer, columnHead(model), h("p", { class: "soft" }, t(`ask_${model.task}`)));
    return;
  }
  fill(answer, waiting());
  try {
    const question = { model: model.name, ...task.question(state), attention: Boolean(model.attends) };
    const { predictions } = await post("/api/predict", question, signal);
    fill(answer, columnHead(model), SHOWN[model.task](predictions[0], state));
  } catch (error) {
    if (error.name !== "AbortError") fill(answer, problem(error));
  }
}

function form(models, model, task, state) {
  const submit = (event) => {
    event.preventDefault();
    const given = Object.fromEntries([...new FormData(event.target)].filter(([name]) => task.fields.some(([own]) => own === name)));
    go("predict", { model: model.name, ...given });
  };
  const sends = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  };
  const field = ([name, size]) => h("label", { class: "field big wide" }, h("span", {}, t(`field_${name}`)),
    size !== "line" ? h("textarea", { id: name, name, rows: ROWS[name] ?? 2, maxlength: 20000, spellcheck: "false", value: state[name] ?? "",
      onkeydown: ROWS[name] ? null : sends })
      : h("input", { id: name, name, value: state[name] ?? "", maxlength: 2000, autocomplete: "off", spellcheck: "false" }));
  return h("form", { class: "ask task", onsubmit: submit }, task.fields.map(field),
    h("div", { class: "ask-row" }, h("button", { class: "primary" }, t("run")),
      models.length > 1 && choice({ id: "model", label: t("model"), value: model.name, options: models.map((m) => [m.name, m.name]),
        onchange: (name) => go("predict", { ...state, model: name }) })));
}

const SHOWN = {
  classify: (found) => [found.attention && shades(found.attention), labels(Object.entries(found.probabilities))],
  pair: (found) => (found.probabilities ? labels(Object.entries(found.probabilities))
    : h("p", { class: "outcome" }, h("span", { class: "soft" }, t("pairScore")), " ", h("strong", {}, number(found.score, 3)))),
  tag: tagged,
  choice: (found) => labels(found.alternatives.map((text, i) => [text, found.probabilities[i]]), "labels sentences"),
  span: (found, { passage }) => {
    const characters = [...passage];
    const end = found.start + [...found.text].length;
    return found.start < 0 ? h("p", { class: "outcome" }, t("noAnswerHere"), " ", percent(found.probability))
      : [h("p", { class: "outcome" }, h("strong", {}, found.text), " ", percent(found.probability)),
        h("p", { class: "running" }, characters.slice(0, found.start).join(""),
          h("mark", { class: "marked edge-0" }, characters.slice(found.start, end).join("")), characters.slice(end).join(""))];
  },
};

const percent = (share) => h("span", { class: "soft" }, `${(100 * share).toFixed(1)} %`);

function labels(probabilities, kind = "labels") {
  const ranked = probabilities.sort((a, b) => b[1] - a[1]);
  return h("ol", { class: kind }, ranked.slice(0, MOST_LABELS).map(([label, share]) => h("li", {},
    h("span", { class: "word" }, label), h("span", { class: "bar", vars: { "--share": share.toFixed(4) } }), percent(share))));
}

// The darker a word, the more it counted; the darkest is the one that counted most.
function shades(attention) {
  const most = Math.max(...attention.map(([, weight]) => weight), 1e-9);
  return [h("h3", {}, t("counted")), h("p", { class: "running shades" }, spaced(attention.map(([token]) => token), (token, i) =>
    h("span", { class: "shade", vars: { "--share": (attention[i][1] / most).toFixed(3) }, title: `${(100 * attention[i][1]).toFixed(1)} %` }, token)))];
}

function tagged(found) {
  const kinds = [...new Set(found.entities.map((entity) => entity.type))].sort();
  const colour = (kind) => kinds.indexOf(kind) % 8;
  if (!found.entities.length && found.tags.every((tag) => tag === "O")) return [running(found.tokens), h("p", { class: "soft" }, t("noEntities"))];
  if (!found.entities.length) { // tags that mark no stretches: parts of speech
    return h("p", { class: "running" }, spaced(found.tokens, (token, i) => h("ruby", {}, token, h("rt", {}, found.tags[i]))));
  }
  const at = new Map(found.entities.map((entity) => [entity.start, entity]));
  const pieces = [];
  for (let i = 0; i < found.tokens.length; i++) {
    const entity = at.get(i);
    if (!entity) { pieces.push([found.tokens[i], null]); continue; }
    pieces.push([entity.text, entity]);
    i = entity.end - 1;
  }
  return [h("p", { class: "running" }, spaced(pieces.map(([text]) => text), (text, i) => {
    const entity = pieces[i][1];
    return entity ? h("mark", { class: `marked edge-${colour(entity.type)}`, title: `${entity.type} ${(100 * entity.probability).toFixed(1)} %` },
      text, h("sub", { class: `ink-${colour(entity.type)}` }, entity.type)) : text;
  })), h("ul", { class: "entities" }, found.entities.map((entity) => h("li", {}, h("span", { class: `dot fill-${colour(entity.type)}` }),
    h("strong", {}, entity.text), h("span", { class: "soft" }, entity.type), percent(entity.probability))))];
}

const running = (tokens) => h("p", { class: "running" }, spaced(tokens, (token) => token));

// Words with blanks between them, but none in Chinese and what else is written without spaces.
function spaced(tokens, shown) {
  return tokens.map((token, i) => [i > 0 && latin([...tokens[i - 1]].at(-1)) && latin([...token][0]) ? " " : "", shown(token, i)]);
}

const latin = (character) => character !== undefined && !isUnspaced(character) && !/[“”‘’]/.test(character);
