/** Queries that only end when they are given up. */

/**
 * Computes without an end and without a result, in next to no memory: DuckDB keeps the right side of the join, which
 * is small, and reads the left one along it.
 */
export const endless = "SELECT count(*) FROM range(1000000000000) a, range(1000) b WHERE a.range + b.range = -1";
