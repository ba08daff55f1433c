/** Short words that go by themselves. `Toasts` shows them. */
import { Toast } from "@base-ui/react/toast";

import { oneLine } from "./format.js";

export const toasts = Toast.createToastManager();

/** Says that something was done. What failed is shown where it failed, if there is a place for it. */
export function toast(title: string, description?: string, kind: "info" | "error" = "info"): void {
  toasts.add({
    title: oneLine(title),
    type: kind,
    ...(description === undefined ? {} : { description: oneLine(description) }),
  });
}
