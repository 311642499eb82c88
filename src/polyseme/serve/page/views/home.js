// What is loaded, in numbers, and three ways to begin.

import { fill, h } from "../dom.js";
import { empty, methodOf, ofKind } from "../parts.js";
import { link } from "../router.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme demo\npolyseme serve polyseme-demo/word2vec polyseme-demo/elmo polyseme-demo/index";

export function render(root, state, { library }) {
  if (!library.items.length) {
    fill(root, h("h1", {}, t("homeTitle")), empty(t("emptyAll"), COMMAND));
    return;
  }
  const invited = h("div", { class: "invitations" });
  fill(root, h("h1", {}, t("homeTitle")),
    h("div", { class: "shelf-cards" }, library.items.map(card)),
    h("h2", {}, t("invitations")), invited);
  fill(invited, invitations(library));
}

function card(item) {
  const text = item.text ?? {};
  const of = item.kind === "corpus" || item.kind === "index" ? [
    text.tokens && t("homeText", number(text.tokens), number(text.sentences)),
    text.documents > 1 && t("homeDocuments", number(text.documents)),
    text.words && t("homeDifferent", number(text.words)),
  ] : [item.texts && t("homeTexts", number(item.texts)), item.labels && t("homeLabels", labels(item.labels)), item.words && t("homeDifferent", number(item.words)), item.dim && t("homeDim", number(item.dim)),
    text.tokens && t("homeTrained", number(text.tokens))];
  return h("a", { class: "loaded", href: link("models", { name: item.name }) },
    h("strong", {}, item.name), h("span", { class: "soft" }, [methodOf(item), t(`kind_${item.kind}`)].filter(Boolean).join(" · ")),
    [...of, item.changed && t("changedOnDisk"), item.occurrences && t("homeOccurrences", number(item.occurrences))].filter(Boolean).map((line) => h("span", {}, line)));
}

const SHOWN = 6; // labels of a task

const labels = (names) => [...names.slice(0, SHOWN), ...(names.length > SHOWN ? ["…"] : [])].join(t("listComma"));

function invitations(library) {
  const [index] = ofKind(library, "index"), [words] = ofKind(library, "words");
  const text = index ?? ofKind(library, "corpus")[0];
  const near = words?.examples[0];
  const found = [];
  const word = index?.splits?.[0]?.[0] ?? index?.examples[0];
  if (word) found.push(["Uses", word, link("senses", { index: index.name, word })]);
  if (near) found.push(["Neighbours", near, link("neighbours", { word: near })]);
  const query = index?.examples[1] ?? near ?? text?.examples?.[0];
  if (text && query) found.push(["Concordance", query, link("concordance", { corpus: text.name, query, sort: "right" })]);
  if (words) found.push(["Map", "", link("map", { model: words.name, colour: "cluster" })]);
  found.push(["Call", "", link("models", { name: library.items[0].name })]);
  return found.slice(0, 3).map(([name, about, href]) => h("a", { class: "invitation", href },
    h("strong", {}, t(`invite${name}`, about)), h("span", { class: "soft" }, t(`invite${name}Note`))));
}
