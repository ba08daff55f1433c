/** Levels of log records: 1 fatal, 2 error, 3 warn, 4 info, 5 debug, 6 trace; 0 here for none. */

/** Level by OTLP severity number (logs data model, "SeverityNumber"): four numbers each. */
const levelByNumber = Uint8Array.from({ length: 25 }, (_, number) =>
  number === 0 ? 0 : 6 - Math.floor((number - 1) / 4),
);

/** Words that senders write into severity_text, lower case. Digits behind one ("INFO2") are ignored. */
const levelWords: readonly (readonly [string, number])[] = [
  ["fatal", 1],
  ["emerg", 1],
  ["emergency", 1],
  ["alert", 1],
  ["crit", 1],
  ["critical", 1],
  ["panic", 1],
  ["error", 2],
  ["err", 2],
  ["severe", 2],
  ["warn", 3],
  ["warning", 3],
  ["info", 4],
  ["information", 4],
  ["informational", 4],
  ["notice", 4],
  ["debug", 5],
  ["fine", 5],
  ["trace", 6],
  ["verbose", 6],
  ["finest", 6],
];

const levelByWord = levelWords.map(([word, level]) => ({
  letters: Uint8Array.from(word, (letter) => letter.charCodeAt(0)),
  level,
}));

function matches(letters: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (end - start < letters.length) {
    return false;
  }
  for (let index = 0; index < letters.length; index++) {
    if ((bytes[start + index]! | 0x20) !== letters[index]) {
      return false;
    }
  }
  for (let pos = start + letters.length; pos < end; pos++) {
    if (bytes[pos]! < 0x30 || bytes[pos]! > 0x39) {
      return false;
    }
  }
  return true;
}

/**
 * The level of a record: from its severity number, or, when that is unspecified, from its severity
 * text in `bytes[start, end)` if that is a usual word.
 */
export function levelOf(number: number, bytes: Uint8Array, start: number, end: number): number {
  if (number > 0) {
    return number < levelByNumber.length ? levelByNumber[number]! : 0;
  }
  if (number < 0 || start === end) {
    return 0;
  }
  for (const { letters, level } of levelByWord) {
    if (matches(letters, bytes, start, end)) {
      return level;
    }
  }
  return 0;
}
