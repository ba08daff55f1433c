/** Which columns a narrow table shows, so that nobody has to scroll it sideways to understand a row. */
import type { TableColumn } from "./table-columns.js";

/** Tables at least as wide show every column; they scroll where the last one cannot make room. */
const narrowPixels = 480;
export const defaultWidth = 160;
const leastOfLast = 160;
/** Of its width, for a column to which nobody gave another and that is not shown in brief. */
const leastShare = 0.9;

/** A heading is never narrower than this, about. */
const headingPixels = (title: string): number => title.length * 7 + 22;
const leastPixels = { first: 112, left: 96, right: 72 };

/**
 * The first column stays, then those to keep, then the others from the left, each as long as there is room for its least
 * width. What is left over makes them wider again.
 * @param room pixels for columns. @param resized widths that somebody chose. @param asked columns that somebody wants in
 * spite of all.
 * @returns pixels of each column that is shown, by its id; the others do not fit
 */
export function fitColumns(
  columns: readonly TableColumn[],
  room: number,
  resized: Readonly<Record<string, number>>,
  asked: readonly string[],
): ReadonlyMap<string, number> {
  // A column may be called as what every object has.
  const chosen = ({ id }: TableColumn): number | undefined => (Object.hasOwn(resized, id) ? resized[id] : undefined);
  const wanted = (column: TableColumn): number => chosen(column) ?? column.width ?? defaultWidth;
  const sum = columns.reduce((pixels, column) => pixels + wanted(column), 0);
  if (room >= narrowPixels || sum <= room) {
    const last = columns.at(-1);
    // Better less of a long text at its end than a table that scrolls, and columns a little narrower than that.
    const isText = last !== undefined && last.align !== "right" && chosen(last) === undefined;
    const spared = isText ? Math.min(sum - room, wanted(last) - leastOfLast) : 0;
    const gives = (column: TableColumn): boolean => chosen(column) === undefined && column.brief === undefined;
    const given = columns.filter(gives).reduce((pixels, column) => pixels + wanted(column), 0);
    const share = sum > room && sum - given * (1 - leastShare) <= room ? 1 - (sum - room) / given : 1;
    return new Map(
      columns.map((column) => {
        const pixels = wanted(column);
        if (spared > 0) {
          return [column.id, column === last ? pixels - spared : pixels];
        }
        return [column.id, gives(column) ? Math.floor(pixels * share) : pixels];
      }),
    );
  }
  const least = (column: TableColumn): number =>
    chosen(column) ??
    Math.min(
      wanted(column),
      column.brief?.width ??
        (column.leastWidth === undefined ? undefined : Math.min(column.leastWidth, room)) ??
        Math.max(leastPixels[column === columns[0] ? "first" : (column.align ?? "left")], headingPixels(column.title)),
    );
  const rank = (column: TableColumn): number =>
    column === columns[0] ? 0 : asked.includes(column.id) ? 1 : column.keep === true ? 2 : 3;
  const byRank = columns.toSorted((a, b) => rank(a) - rank(b));
  const widths = new Map<string, number>();
  let left = room;
  for (const column of byRank) {
    if (rank(column) < 2 || least(column) <= left) {
      widths.set(column.id, least(column));
      left -= least(column);
    }
  }
  const missing = (column: TableColumn): number => wanted(column) - (widths.get(column.id) ?? wanted(column));
  const sharing = byRank.filter((column) => column.brief === undefined && missing(column) > 0);
  const share = Math.min(1, left / sharing.reduce((pixels, column) => pixels + missing(column), 1));
  for (const column of sharing) {
    const more = Math.floor(missing(column) * share);
    widths.set(column.id, wanted(column) - missing(column) + more);
    left -= more;
  }
  // What is shown in brief says enough. It gets all that it wants once the others have that, or no more.
  for (const column of byRank) {
    if (widths.has(column.id) && column.brief !== undefined && missing(column) <= left) {
      left -= missing(column);
      widths.set(column.id, wanted(column));
    }
  }
  return widths;
}
