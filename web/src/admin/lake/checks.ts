/** Reports of checks in words. */
import type { LakeCheck } from "../../api/wire.js";
import { formatCount } from "../../ui/format.js";

export type LakeReport = NonNullable<LakeCheck["report"]>;
export type ProblemKind = LakeReport["problems"][number]["kind"];

/** What each kind of problem is, from the worst. */
export const problemWords: Readonly<Record<ProblemKind, string>> = {
  missing:
    "The catalogue names an object that is not there. Queries over it fail; a repair takes it out of the catalogue.",
  unreadable: "The object is broken. Queries over it fail; a repair takes it out of the catalogue, and the file stays.",
  wrong_rows: "The object is not the one that was published: it has other rows. Restore it from a backup.",
  wrong_size: "The object is not the one that was published: it has another size. Restore it from a backup.",
  wrong_checksum: "The object holds other bytes than were written. Restore it from a backup.",
  lost: "An earlier repair took it out, and its object is not back.",
  orphan: "Nothing names this object, for over an hour. A repair removes it, and so does maintenance every hour.",
  returned: "An earlier repair took it out, and its object is back. A repair puts it back.",
};

/** All problems that a report counts, those too that it does not list. */
export function problemCount({ counts }: LakeReport): number {
  return Object.keys(problemWords).reduce((sum, kind) => sum + counts[kind as ProblemKind], 0);
}

/** What came out, in some words. */
export function outcomeWords({ state, report }: Pick<LakeCheck, "state" | "report">): string | null {
  if (report === null) {
    return state === "failed" ? "failed" : null;
  }
  const count = problemCount(report);
  const mended = report.counts.mended === 0 ? "" : `, ${report.counts.mended} mended`;
  return count === 0 ? "all is well" : `${formatCount(count, "problem")}${mended}`;
}
