/** How many requests failed: a number, and from 1 in 100 on a colour. */
import type { ReactElement } from "react";

import { formatPercent } from "../../ui/format.js";
import css from "./services.module.css";

type Severity = "good" | "warn" | "error";

/** @param share 0 to 1. */
export const severityOf = (share: number): Severity => (share >= 0.05 ? "error" : share >= 0.01 ? "warn" : "good");

export function ErrorShare({ share }: { readonly share: number }): ReactElement {
  return <span className={css[`share-${severityOf(share)}`]}>{formatPercent(share)}</span>;
}
