/** The audience that something is about. */
import { type ReactElement, useMemo } from "react";

import type { Grant, IngestionKey } from "../../api/wire.js";
import type { TextField } from "../../ui/controls/controls.js";
import { useList } from "../api.js";
import { SuggestField } from "../form.js";

/** A text field that offers the audiences that keys and grants name, and takes any. */
export function AudienceField(
  field: Omit<Parameters<typeof TextField>[0], "label"> & { readonly value: string },
): ReactElement {
  const grants = useList<Grant>(["grants"], "api/audience-grants");
  const keys = useList<IngestionKey>(["ingestion-keys"], "api/ingestion-api-keys", { query: { include_usage: true } });
  const names = useMemo(
    () => [...new Set([...(grants.data ?? []), ...(keys.data ?? [])].map(({ audience }) => audience))].toSorted(),
    [grants.data, keys.data],
  );
  return <SuggestField label="Audience" options={names} spellCheck={false} {...field} />;
}
