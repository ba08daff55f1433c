/** What a check of the lake found. It is stored with its task as JSON, so names are those of the routes. */

import type { PartitionRow } from "../catalogue-rows.js";

/** A partition as a check needs it. */
export type CheckedPartition = Pick<
  PartitionRow,
  "partitionId" | "viewSet" | "audience" | "path" | "fileBytes" | "checksum" | "rowCount"
>;

/** What can be wrong, from the worst. */
export type LakeProblemKind =
  /** The catalogue names an object that the store lacks. */
  | "missing"
  /** The object is there and cannot be read. */
  | "unreadable"
  /** The object holds another number of rows than the catalogue says. */
  | "wrong_rows"
  /** The object is of another size than the catalogue says. */
  | "wrong_size"
  /** The object holds other bytes than were written. */
  | "wrong_checksum"
  /** The store holds an object that nothing names, for over an hour. */
  | "orphan"
  /** A repair took the partition out of the catalogue earlier. */
  | "lost"
  /** Such a partition whose object is back. */
  | "returned";

/** One object that is not as it should be. */
interface LakeProblem {
  readonly kind: LakeProblemKind;
  readonly path: string;
  readonly view: string | null;
  readonly audience: string | null;
  /** As the catalogue says; null where nothing names the object. */
  readonly rows: number | null;
  readonly mended: boolean;
  readonly detail: string;
}

/** The report of a check. */
export interface LakeReport {
  readonly counts: Readonly<Record<LakeProblemKind | "objects" | "rows" | "mended", number>>;
  /** The first of them. */
  readonly problems: readonly LakeProblem[];
  /** What was left undone, in sentences. */
  readonly notes: readonly string[];
}

/** Problems that a report lists; `counts` counts all. */
const maxProblems = 500;

/** Collects a report. */
export class LakeReportBuilder {
  readonly #counts = {
    objects: 0,
    rows: 0,
    missing: 0,
    unreadable: 0,
    wrong_rows: 0,
    wrong_size: 0,
    wrong_checksum: 0,
    orphan: 0,
    lost: 0,
    returned: 0,
    mended: 0,
  };
  readonly #problems: LakeProblem[] = [];
  readonly #notes: string[] = [];

  /** Counts objects of the catalogue. */
  seen(objects: number, rows: number): void {
    this.#counts.objects += objects;
    this.#counts.rows += rows;
  }

  add(problem: LakeProblem): void {
    this.#counts[problem.kind]++;
    if (problem.mended) {
      this.#counts.mended++;
    }
    if (this.#problems.length < maxProblems) {
      this.#problems.push(problem);
    }
  }

  note(sentence: string): void {
    this.#notes.push(sentence);
  }

  build(): LakeReport {
    return { counts: this.#counts, problems: this.#problems, notes: this.#notes };
  }
}

/** What a report says about a partition. */
export function wordsOf({
  path,
  viewSet,
  audience,
  rowCount,
}: Omit<CheckedPartition, "partitionId" | "fileBytes" | "checksum">) {
  return { path, view: viewSet, audience, rows: rowCount };
}
