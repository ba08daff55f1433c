/** A choice among the maps of the server. */
import type { ReactElement } from "react";

import { SelectField } from "../../ui/controls/controls.js";
import { useMaps } from "./maps-api.js";

export function MapSelect({
  file,
  onChange,
}: {
  readonly file: string;
  readonly onChange: (file: string) => void;
}): ReactElement {
  const { data = [] } = useMaps();
  const files = [...new Set(["", ...data.map((map) => map.file), file])];
  return (
    <SelectField
      label="Map"
      value={file}
      options={files.map((value) => ({ value, label: value === "" ? "none" : value }))}
      onChange={onChange}
    />
  );
}
