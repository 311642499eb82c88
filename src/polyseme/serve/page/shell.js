// Calls to paste into a shell.

import { hasToken } from "./api.js";

export const quoted = (text) => (/^[\p{L}\p{N}_.,:/%@+=-]+$/u.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

const AND = " \\\n  ";
const allowed = () => (hasToken() ? [`-H "Authorization: Bearer $POLYSEME_TOKEN"`] : []);

export function curlGet(path, query = {}) {
  const given = Object.entries(query).map(([name, value]) => `--data-urlencode ${name}=${quoted(value)}`);
  return [`curl -G ${quoted(location.origin + path)}`, ...given, ...allowed()].join(AND);
}

export function curlPost(path, body) {
  return [`curl ${quoted(location.origin + path)} -H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`, ...allowed()].join(AND);
}
