/**
 * Binds long lists of files only once. DuckDB opens the footers of a list (or finds them in its cache, at some 25 us
 * each) when a view over it is made, again when a query over the view is prepared, and again when it starts, because
 * files may have changed. Until then only the columns matter, and a group's first file has them. So a view reads a long
 * list through a variable, which names the first file alone until the query is about to start.
 *
 * A statement that reads files is bound at every start: DuckDB keeps no plan of one, for the files may have
 * changed. Were it otherwise, a query would read first files only; the tests over many files would fail.
 */
import { quoteName, quoteText } from "../../runtime/text/sql-text.js";
import { type ListSql, literalList } from "../sql/file-source.js";

/** Shorter lists are written out: setting a variable costs two statements. */
const fewFiles = 64;
const separator = "\n";

/** The long lists of one query. */
export class FileLists {
  /** In the order of their first use. */
  readonly #names = new Map<readonly string[], string>();

  /** The SQL of a list. */
  readonly sql: ListSql = (paths) => {
    if (paths.length <= fewFiles || paths.some((path) => path.includes(separator))) {
      return literalList(paths);
    }
    const name = this.#names.get(paths) ?? `svc_files_${this.#names.size}`;
    this.#names.set(paths, name);
    return `getvariable(${quoteText(name)})`;
  };

  /** Statements that set every list to its first file: before the views are made. */
  begin(): string[] {
    return [...this.#names].map(([paths, name]) => setList(name, paths.slice(0, 1)));
  }

  /** Statements that set every list to all of its files: between preparing a query and starting it. */
  complete(): string[] {
    return [...this.#names].map(([paths, name]) => setList(name, paths));
  }
}

/** One text, taken apart by DuckDB: a literal of a thousand texts takes it ten times as long. */
function setList(name: string, paths: readonly string[]): string {
  const text = quoteText(paths.join(separator));
  return `SET VARIABLE ${quoteName(name)} = string_split(${text}, chr(10))`;
}
