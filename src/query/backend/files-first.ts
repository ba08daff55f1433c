/**
 * Puts the files that a query reads in front of its text, as common table expressions (CTEs).
 *
 * DuckDB binds a view when it is made, and a statement over it when it is prepared and again when it starts, because files
 * may have changed. That takes one to two milliseconds each time, and 25 us more for each of many files. Here lists of files
 * are parameters, which have no values before the start: what is prepared is parsed and no more.
 */
import type { EngineValue } from "../../engine/protocol.js";
import { quoteName } from "../../runtime/text/sql-text.js";
import { behindComments, blank, endOf } from "../gate/query-text.js";
import { type FileSource, type ListSql, literalList } from "../sql/file-source.js";
import { createFileViewSql, type FileView, fileViewSql } from "../sql/views.js";

/** Files behind a name. */
export interface NamedFiles {
  readonly name: string;
  readonly view: FileView;
  /** One for each table that the view reads. */
  readonly sources: readonly FileSource[];
}

/** A text with its files in front. */
interface FilesFirst {
  readonly sql: string;
  /** The same, where a file lacks a column. */
  readonly orElse: string;
  readonly values: readonly EngineValue[];
}

/**
 * @param sql a query that gives no name of `files` to anything else: the gate sees to that
 * @returns null for what takes no WITH in front: DESCRIBE, VALUES and the like
 */
export function filesFirst(sql: string, files: readonly NamedFiles[]): FilesFirst | null {
  const place = placeOf(sql);
  if (place === null || files.length === 0) {
    return null;
  }
  const lists = new Lists();
  const withFiles = (padded: boolean): string => {
    const ctes = files.map(
      ({ name, view, sources }) =>
        `${quoteName(name)} AS NOT MATERIALIZED (${fileViewSql(view, sources, lists.sql, padded)})`,
    );
    return `${place.before} ${ctes.join(", ")}${place.after}\n${blank(sql.slice(0, place.at))}${sql.slice(place.at)}`;
  };
  // The second text has the lists of the first.
  return { sql: withFiles(false), orElse: withFiles(true), values: lists.values };
}

/** Statements that make the same as temporary views. Files that lack a column are old and few: that is tried last. */
export function viewsFirst(files: readonly NamedFiles[]): { readonly sql: string; readonly orElse: string }[] {
  return files.map(({ name, view, sources }) => {
    const made = (padded: boolean): string => createFileViewSql(name, view, sources, literalList, padded);
    return { sql: made(false), orElse: made(true) };
  });
}

/** What stands around the CTEs in front, and the part of the text that they take the place of. */
interface Place {
  readonly before: "WITH" | "WITH RECURSIVE";
  readonly after: "" | ",";
  readonly at: number;
}

function placeOf(sql: string): Place | null {
  const start = behindComments(sql, 0);
  if (endOf(/(?:SELECT|FROM)\b/iuy, sql, start) !== null) {
    return { before: "WITH", after: "", at: start };
  }
  const withEnd = endOf(/WITH\b/iuy, sql, start);
  if (withEnd === null) {
    return null;
  }
  const recursiveEnd = endOf(/RECURSIVE\b/iuy, sql, behindComments(sql, withEnd));
  // A CTE may be called so.
  if (recursiveEnd === null || endOf(/AS\b|\(/iuy, sql, behindComments(sql, recursiveEnd)) !== null) {
    return { before: "WITH", after: ",", at: withEnd };
  }
  return { before: "WITH RECURSIVE", after: ",", at: recursiveEnd };
}

/** An error of a text with files in front, with the line that it has without them. */
export function withoutFiles(message: string): string {
  // A place in the files in front is none of the text's.
  const placed = message.replace(/\n\nLINE 1: .*\n *\^/u, "");
  return placed.replace(/(?<=\n\n)LINE (\d+): (.*)\n( *)(?=\^)/u, (_, line: string, text: string, indent: string) => {
    const own = String(Number(line) - 1);
    return `LINE ${own}: ${text}\n${indent.slice(line.length - own.length)}`;
  });
}

const separator = "\n";

/** Lists of files as parameters, each in one text: DuckDB takes it apart in a tenth of the time of a list of texts. */
class Lists {
  /** In the order of their first use. */
  readonly #numbers = new Map<readonly string[], number>();

  readonly sql: ListSql = (paths) => {
    if (paths.some((path) => path.includes(separator))) {
      return literalList(paths);
    }
    const number = this.#numbers.get(paths) ?? this.#numbers.size + 1;
    this.#numbers.set(paths, number);
    return `string_split($${number}, chr(10))`;
  };

  get values(): EngineValue[] {
    return [...this.#numbers.keys()].map((paths) => ({ type: "VARCHAR", text: paths.join(separator) }));
  }
}
