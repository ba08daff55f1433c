/** What to do about an empty list. */
import type { ReactElement } from "react";

import { serverNow } from "../api/server-clock.js";
import { useTimeRange } from "../app/time-range-context.js";
import { Button } from "../ui/controls/controls.js";
import { widerRange } from "../ui/time-range.js";

export function ClearOrWiden(o: { readonly hasFilters: boolean; readonly onClear: () => void }): ReactElement {
  const { resolved, setRange } = useTimeRange();
  return o.hasFilters ? (
    <Button onClick={o.onClear}>Take all filters away</Button>
  ) : (
    <Button onClick={() => setRange(widerRange(resolved, serverNow()))}>Widen the time range</Button>
  );
}
