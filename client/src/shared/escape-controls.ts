/** Text of others on a terminal. */

const plainAscii = /^[\x20-\x7e]*$/;
// C0 and C1 controls, DEL, line and paragraph separators, and the marks that reorder text.
const controls = /[\p{Cc}\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;
// Among them, those that JSON leaves as they are within its strings.
const controlsOfJson = /[\u007f-\u009f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Writes control characters as escapes (`\n`, `\x1b`). A cell then stays on its line, and text from elsewhere,
 * telemetry that anyone may have sent or words of an identity provider, cannot steer the reader's terminal.
 */
export function escapeControls(text: string): string {
  if (plainAscii.test(text)) {
    return text;
  }
  return text.replaceAll(controls, (c) => {
    if (c === "\n") {
      return "\\n";
    }
    if (c === "\r") {
      return "\\r";
    }
    if (c === "\t") {
      return "\\t";
    }
    const code = c.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16)}`;
  });
}

/** The same JSON without characters that could steer a terminal: as it is made, it escapes those below U+0020 alone. */
export function escapeControlsOfJson(json: string): string {
  return json.replaceAll(controlsOfJson, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
