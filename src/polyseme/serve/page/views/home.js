// What is loaded, in numbers, and three ways to begin.

import { get } from "../api.js";
import { fill, h } from "../dom.js";
import { empty, examples, ofKind } from "../parts.js";
import { link } from "../router.js";
import { number, t } from "../strings.js";

const COMMAND = "polyseme demo\npolyseme serve polyseme-demo/word2vec polyseme-demo/elmo polyseme-demo/index";

export async function render(root, state, { library, signal }) {
  if (!library.items.length) {
    fill(root, h("h1", {}, t("homeTitle")), empty(t("emptyAll"), COMMAND));
    return;
  }
  const invited = h("div", { class: "invitations" });
  fill(root, h("h1", {}, t("homeTitle")),
    h("div", { class: "shelf-cards" }, library.items.map(card)),
    h("h2", {}, t("invitations")), invited);
  fill(invited, await invitations(library, signal));
}

function card(item) {
  const text = item.text ?? {};
  const of = item.kind === "corpus" || item.kind === "index" ? [
    text.tokens && t("homeText", number(text.tokens), number(text.sentences)),
    text.documents > 1 && t("homeDocuments", number(text.documents)),
    text.words && t("homeDifferent", number(text.words)),
  ] : [item.words && t("homeDifferent", number(item.words)), item.dim && t("homeDim", number(item.dim))];
  return h("a", { class: "loaded", href: link("models", { name: item.name }) },
    h("strong", {}, item.name), h("span", { class: "soft" }, [item.method, t(`kind_${item.kind}`)].filter(Boolean).join(" · ")),
    [...of, item.occurrences && t("homeOccurrences", number(item.occurrences))].filter(Boolean).map((line) => h("span", {}, line)));
}

async function invitations(library, signal) {
  const [index] = ofKind(library, "index"), [words] = ofKind(library, "words");
  const text = index ?? ofKind(library, "corpus")[0];
  const near = words ? (await examples(words.name, signal, 1))[0] : null;
  const found = [];
  const word = index?.splits?.[0]?.[0] ?? index?.examples?.[0];
  if (word) found.push(["Uses", word, link("senses", { index: index.name, word })]);
  if (near) found.push(["Neighbours", near, link("neighbours", { word: near })]);
  const query = index?.examples?.[1] ?? near ?? (text ? await frequent(text, signal) : null);
  if (text && query) found.push(["Concordance", query, link("concordance", { corpus: text.name, query, sort: "right" })]);
  if (words) found.push(["Map", "", link("map", { model: words.name, colour: "cluster" })]);
  found.push(["Call", "", link("models", { name: library.items[0].name })]);
  return found.slice(0, 3).map(([name, about, href]) => h("a", { class: "invitation", href },
    h("strong", {}, t(`invite${name}`, about)), h("span", { class: "soft" }, t(`invite${name}Note`))));
}

async function frequent(text, signal) {
  const { tokens } = await get("/api/sentence", { corpus: text.name, number: 0 }, signal);
  return tokens.find((token) => /\p{L}{2,}/u.test(token)) ?? tokens[0];
}
