/** Keeps credentials out of the log: by the name of a field, and by their shape in any text. */

const replacement = "[redacted]";

/** Compared in lower case without `_` and `-`. */
const secretNames: ReadonlySet<string> = new Set([
  "authorization",
  "proxyauthorization",
  "cookie",
  "setcookie",
  "key",
  "apikey",
  "xapikey",
  "ingestionapikey",
  "analyticsapikey",
  "token",
  "idtoken",
  "accesstoken",
  "refreshtoken",
  "bearertoken",
  "password",
  "secret",
  "clientsecret",
  "statesecret",
  "connectionstring",
  "sqlconnectionstring",
  "secretaccesskey",
  "awssecretaccesskey",
]);

const maxDepth = 6;

/** A copy of `fields` in which every field named like a credential, at any depth, reads `[redacted]`. */
export function redactFields(fields: Record<string, unknown>): Record<string, unknown> {
  return redactObject(fields, 0);
}

function redactObject(fields: object, depth: number): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    out[name] = isSecretName(name) && value !== null && value !== undefined ? replacement : redactValue(value, depth);
  }
  return out;
}

function redactValue(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || depth >= maxDepth) {
    return value;
  }
  if (Array.isArray(value)) {
    return value.map((item) => redactValue(item, depth + 1));
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  // Only plain data is walked: errors have their serializer, and a class may have a toJSON.
  return prototype === Object.prototype || prototype === null ? redactObject(value, depth + 1) : value;
}

function isSecretName(name: string): boolean {
  return secretNames.has(name.toLowerCase().replaceAll(/[_-]/g, ""));
}

/**
 * Replaces what looks like a credential in a line of the log: `svk_` keys, bearer and basic
 * credentials, JSON web tokens, the password of a URL, and texts of JSON fields named like a
 * credential (the bindings of a child logger do not pass through {@link redactFields}).
 */
export function redactText(text: string): string {
  return text
    .replaceAll(/"([A-Za-z_-]{3,40})":"(?:[^"\\]|\\.)*"/g, (field, name: string) =>
      isSecretName(name) ? `"${name}":"${replacement}"` : field,
    )
    .replaceAll(/svk_[A-Za-z0-9]{6,}/g, `svk_${replacement}`)
    .replaceAll(/\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${replacement}`)
    .replaceAll(/(?<![\w.-])[\w-]+(?:\.[\w-]*){2,}/g, withoutToken)
    .replaceAll(/(:\/\/[^\s:/@"]*):[^\s@"/]+@/g, `$1:${replacement}@`)
    .replaceAll(/(\bpassword=)[^\s&"';\\]+/gi, `$1${replacement}`);
}

/** A text of parts with dots between them, to where a JSON web token begins in it. Each is looked through once. */
function withoutToken(text: string): string {
  const start = text.search(/\beyJ/);
  return start === -1 ? text : `${text.slice(0, start)}${replacement}`;
}
