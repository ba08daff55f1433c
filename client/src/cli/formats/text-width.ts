/** How many columns of a terminal a text takes, and how to cut it for one line of it. */

const plainAscii = /^[\x20-\x7e]*$/;
const zeroWidth = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
const wide =
  /[\p{Emoji_Presentation}\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]|\p{Emoji}\ufe0f/u;

let segmenter: Intl.Segmenter | null = null;

/** Made when the first text needs it, which most results never do: it takes ten milliseconds. */
function graphemes(text: string): Iterable<{ readonly segment: string }> {
  segmenter ??= new Intl.Segmenter("und", { granularity: "grapheme" });
  return segmenter.segment(text);
}

function graphemeWidth(grapheme: string): number {
  if (zeroWidth.test(grapheme)) {
    return 0;
  }
  return wide.test(grapheme) ? 2 : 1;
}

/** Columns that `text` takes on a terminal: East Asian wide and emoji count two, marks none. */
export function textWidth(text: string): number {
  if (plainAscii.test(text)) {
    return text.length;
  }
  let width = 0;
  for (const { segment } of graphemes(text)) {
    width += graphemeWidth(segment);
  }
  return width;
}

/** Cuts `text` to at most `columns` columns, with `…` in the last when something was cut. */
export function truncate(text: string, columns: number): string {
  if (textWidth(text) <= columns) {
    return text;
  }
  let out = "";
  let width = 0;
  for (const { segment } of graphemes(text)) {
    const next = graphemeWidth(segment);
    if (width + next > columns - 1) {
      break;
    }
    out += segment;
    width += next;
  }
  return `${out}…`;
}
