// Every view is an address: #/view?key=value. The back button is the way one came.

export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a % that escapes nothing
  }
}

export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: decoded(path), state: Object.fromEntries(new URLSearchParams(query)) };
}

export function link(view, state = {}) {
  const pairs = Object.entries(state).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(pairs).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

export function go(view, state, { replace = false } = {}) {
  const target = link(view, state);
  if (replace || target === location.hash) { // the same question can be asked again
    history.replaceState(null, "", target);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = target;
  }
}
