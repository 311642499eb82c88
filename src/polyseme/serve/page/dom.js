// Elements from data. Text always becomes a text node, so nothing that a model holds is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, properties = {}, ...children) {
  return furnish(document.createElement(tag), properties, children);
}

export function svg(tag, properties = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), properties, children);
}

function furnish(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "checked" || name === "selected") element[name] = value;
    else if (name === "value") element.defaultValue = element.value = value; // as long as they are equal, nothing was typed
    else if (name === "vars") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

// What a screen reader should hear of a change.
export function announce(text) {
  document.getElementById("live").textContent = text;
}

// Alt and the left arrow lead back, Ctrl and + enlarge the page: keys of the browser.
export const withModifier = (event) => event.altKey || event.ctrlKey || event.metaKey;

// Up and down arrows walk through the links or buttons of a list; left and right go to the next list beside it.
export function arrowKeys(list, lists = () => [list]) {
  const stops = (of) => [...of.querySelectorAll("a, button")];
  list.addEventListener("keydown", (event) => {
    if (withModifier(event)) return;
    const here = stops(list);
    const place = here.indexOf(document.activeElement);
    if (place < 0) return;
    const side = lists();
    const column = side.indexOf(list);
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -place, End: here.length - 1 - place }[event.key];
    const turn = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    let next = null;
    if (step !== undefined) next = here[Math.min(here.length - 1, Math.max(0, place + step))];
    else if (turn && side[column + turn]) {
      const there = stops(side[column + turn]);
      next = there[Math.min(there.length - 1, place)];
    }
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  return list;
}
