import { recordsPerRequest } from "./ledger.js";
import type { Outcome } from "./trial.js";

/** The outcome of a trial in lines, problems at the end. */
export function report(outcome: Outcome): string[] {
  const { record, reads, ledger, problems } = outcome;
  const sum = (counts: ReadonlyMap<string, number>): number => [...counts.values()].reduce((all, n) => all + n, 0);
  const counted = ([what, n]: readonly [string, number]): string => `${String(n).padStart(6)}  ${what}`;
  return [
    ...[...record.kinds].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(counted),
    `faults ${sum(record.kinds)}, ${record.kills} of them kills, in ${outcome.loadSeconds.toFixed(0)} s; requests sent again ${ledger.retries}; erasures ${outcome.erasures}`,
    `queries answered ${reads.answered}, wrong ${reads.wrong}, failed ${sum(reads.failed)}`,
    ...[...reads.failed].toSorted(([, a], [, b]) => b - a).map(counted),
    ...(outcome.throughCaches === 0 ? [] : [`reads through the object cache at last ${outcome.throughCaches}`]),
    `records acknowledged ${ledger.acknowledged.size * recordsPerRequest}, lost ${outcome.lost}, doubled ${outcome.doubled}`,
    ...problems.map((problem) => `PROBLEM: ${problem}`),
  ];
}
