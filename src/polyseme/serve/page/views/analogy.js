// a is to b as c is to …: in one to three models.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { chosenModels, columnHead, empty, modelChips, ofKind, problem, scoreList, waiting, wordField,
  wordsInSeveral } from "../parts.js";
import { go, link } from "../router.js";
import { t } from "../strings.js";

const COMMAND = "polyseme train word2vec TEXT -o words\npolyseme serve words";
const EXAMPLES = [["男人", "女人", "父亲"], ["中国", "北京", "日本"], ["哥哥", "弟弟", "姐姐"], ["man", "woman", "king"],
  ["France", "Paris", "Italy"], ["france", "paris", "italy"], ["go", "went", "see"]];

export async function render(root, state, { library, signal }) {
  const models = ofKind(library, "words");
  if (!models.length) {
    fill(root, h("h1", {}, t("analogy")), empty(t("emptyWords"), COMMAND));
    return;
  }
  const chosen = chosenModels(models, state);
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    const [a, b, c] = ["a", "b", "c"].map((name) => form.get(name).trim());
    if (a && b && c) go("analogy", { a, b, c, models: chosen.join(",") });
  };
  const field = (id) => wordField({ id, label: id, value: state[id], model: chosen[0], signal });
  const columns = h("div", { class: "columns list" });
  fill(root, h("h1", { class: "unseen" }, t("analogy")),
    h("form", { class: "ask analogy-form", onsubmit: submit },
      field("a"), h("span", { class: "joint" }, t("isTo")), field("b"), h("span", { class: "joint" }, t("as")), field("c"),
      h("span", { class: "joint" }, `${t("isTo")} ${t("what")}`), h("button", { class: "primary" }, t("ask")),
      models.length > 1 && modelChips({ models, chosen, onchange: (next) => go("analogy", { ...state, models: next.join(",") }) })),
    columns);
  const { a, b, c } = state;
  if (!a || !b || !c) {
    fill(columns, await examples(chosen, signal));
    return;
  }
  fill(columns, waiting());
  const answers = await Promise.all(chosen.map((model) =>
    get("/api/analogy", { model, a, b, c, topn: 10 }, signal).catch((error) => ({ error }))));
  if (signal.aborted) return;
  const shared = wordsInSeveral(answers.map((answer) => answer.answers));
  const all = () => [...columns.querySelectorAll("ol.scores")];
  fill(columns, chosen.map((name, i) => h("section", { class: "column" }, columnHead(models.find((item) => item.name === name)),
    answers[i].error ? problem(answers[i].error) : [
      h("p", { class: "equation" }, `${a} : ${b} = ${c} : `, h("strong", {}, answers[i].answers[0]?.word ?? t("noAnswer"))),
      scoreList(answers[i].answers, { href: (word) => link("neighbours", { word, models: chosen.join(",") }), shared, lists: all })])));
}

// Only those whose words the model has.
async function examples(models, signal) {
  const known = async (word) => {
    const { words } = await get("/api/words", { model: models[0], prefix: word, limit: 200 }, signal);
    return words.some((entry) => entry.word === word);
  };
  const fits = await Promise.all(EXAMPLES.map(async (words) => (await Promise.all(words.map(known))).every(Boolean)));
  const found = EXAMPLES.filter((_, i) => fits[i]);
  return found.length > 0 && h("section", { class: "examples" }, h("h2", {}, t("tryOne")),
    h("p", {}, found.map(([a, b, c]) => h("a", { href: link("analogy", { a, b, c, models: models.join(",") }) }, t("analogyForm", a, b, c)))));
}
