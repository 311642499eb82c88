// Questions to the server. The token, where there is one, came in the address's fragment and lives for the session.

const KEY = "polyseme.token";

function stored(storage, key, value) {
  try {
    if (value !== undefined) storage.setItem(key, value);
    return storage.getItem(key);
  } catch {
    return null; // storage can be forbidden
  }
}

export const remember = (key, value) => stored(localStorage, `polyseme.${key}`, value);

let token = stored(sessionStorage, KEY);

export function takeToken(value) {
  token = value;
  stored(sessionStorage, KEY, value);
}

export const hasToken = () => Boolean(token);

export class ApiError extends Error {
  constructor(message, status, type) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

async function ask(path, options) {
  // The status comes in a header: a browser would report an unknown word, a 404, as an error of the page.
  const headers = { ...options.headers, "X-Polyseme-Page": "1" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const response = await fetch(path, { ...options, headers });
  const body = await response.json().catch(() => null);
  const status = Number(response.headers.get("X-Polyseme-Status") ?? response.status);
  if (status >= 400) {
    const error = body?.error ?? {};
    throw new ApiError(error.message ?? response.statusText, status, error.type ?? "http");
  }
  return body;
}

export function get(path, query = {}, signal) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
  const search = new URLSearchParams(pairs).toString();
  return ask(search ? `${path}?${search}` : path, { signal });
}

export function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}
