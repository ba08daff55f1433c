/** Shortcuts of one key. */
import type { KeyboardEvent } from "react";

/** Does what a key stands for; letters count in either case. With Ctrl, Meta or Alt a key is the browser's. */
export function pressKey(event: KeyboardEvent, actions: Readonly<Record<string, () => void>>): void {
  const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (action !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    action();
  }
}
