/** What was typed into the editor and has not run: it is there again on the way back, and when the page is loaded anew. */

interface Draft {
  /** In the address beside which it was typed; null: no text. */
  readonly address: string | null;
  readonly text: string;
}

/** Everybody who logs in here has their own. */
const keyOf = (subject: string): string => `telemetry.sql.draft ${subject}`;

/** For a browser whose storage is full, or blocked. */
const kept = new Map<string, Draft>();

export function keepDraft(subject: string, address: string | null, text: string): void {
  const draft: Draft = { address, text };
  kept.set(subject, draft);
  try {
    sessionStorage.removeItem(keyOf(subject));
    sessionStorage.setItem(keyOf(subject), JSON.stringify(draft));
  } catch {
    // It is kept for as long as the page is open.
  }
}

/** Null: nothing was typed beside this address. */
export function draftOf(subject: string, address: string | null): string | null {
  const draft = kept.get(subject) ?? stored(subject);
  return draft !== null && draft.address === address ? draft.text : null;
}

function stored(subject: string): Draft | null {
  try {
    const { address, text } = JSON.parse(sessionStorage.getItem(keyOf(subject)) ?? "{}") as Partial<Draft>;
    return typeof text === "string" && address !== undefined ? { address, text } : null;
  } catch {
    return null;
  }
}
