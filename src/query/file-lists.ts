/**
 * Lists of files that are too long to be bound more than once. DuckDB opens the footers of a list (or finds
 * them in its cache, at some 25 us each) when a view over it is made, again when a query over the view is
 * prepared, and again when it starts, because files may have changed. The names are all that matters until
 * then, and the columns, which a group's first file tells. So a view reads a long list through a variable, which
 * names the first file alone until the query is about to start.
 *
 * That a start binds again is what DuckDB promises of both: functions that read files, and `getvariable`.
 */
import type { DuckDBConnection } from "@duckdb/node-api";

import { type ListSql, literalList, quoteName, quoteText } from "./views.js";

/** Shorter lists are written out: setting a variable costs two statements. */
const fewFiles = 64;
const separator = "\n";

/** The long lists of one connection. */
export class FileLists {
  readonly #names = new Map<readonly string[], string>();

  /** The SQL of a list; call {@link begin} before it is used. */
  readonly sql: ListSql = (paths) => {
    if (paths.length <= fewFiles || paths.some((path) => path.includes(separator))) {
      return literalList(paths);
    }
    const name = this.#names.get(paths) ?? `svc_files_${this.#names.size}`;
    this.#names.set(paths, name);
    return `getvariable(${quoteText(name)})`;
  };

  /** Sets every list to its first file. */
  async begin(connection: DuckDBConnection): Promise<void> {
    await this.#set(connection, (paths) => paths.slice(0, 1));
  }

  /** Sets every list to all of its files: between preparing a query and starting it. */
  async complete(connection: DuckDBConnection): Promise<void> {
    await this.#set(connection, (paths) => paths);
  }

  async #set(
    connection: DuckDBConnection,
    part: (paths: readonly string[]) => readonly string[],
  ): Promise<void> {
    for (const [paths, name] of this.#names) {
      // One text, taken apart by DuckDB: a literal of a thousand texts takes it ten times as long.
      const text = quoteText(part(paths).join(separator));
      await connection.run(`SET VARIABLE ${quoteName(name)} = string_split(${text}, chr(10))`);
    }
  }
}
