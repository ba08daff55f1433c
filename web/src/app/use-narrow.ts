/** Whether the page is as narrow as a phone. */
import { useSyncExternalStore } from "react";

const narrow = window.matchMedia("(max-width: 760px)");

export function useNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => narrow.matches);
}

function subscribe(listener: () => void): () => void {
  narrow.addEventListener("change", listener);
  return () => narrow.removeEventListener("change", listener);
}
