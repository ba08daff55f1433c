/** A field for files, which may also be dropped on it. */
import { type DragEvent, type ReactElement, useId, useState } from "react";

import { classes } from "../ui/controls/controls.js";
import css from "./file-field.module.css";

export function FileField({
  label,
  hint,
  problem = null,
  closed = null,
  accept,
  multiple = false,
  onFiles,
}: {
  readonly label: string;
  readonly hint: string;
  readonly problem?: string | null;
  /** Why it takes no files for now. */
  readonly closed?: string | null;
  readonly accept: string;
  readonly multiple?: boolean;
  readonly onFiles: (files: readonly File[]) => void;
}): ReactElement {
  const id = useId();
  const [over, setOver] = useState(false);
  const drop = (event: DragEvent): void => {
    event.preventDefault();
    setOver(false);
    if (closed === null) {
      onFiles([...event.dataTransfer.files]);
    }
  };
  return (
    <div
      className={classes(css.field, over && css.over)}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(closed === null);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <label htmlFor={id} className={css.label}>
        {label}
      </label>
      <input
        id={id}
        type="file"
        accept={accept}
        multiple={multiple}
        disabled={closed !== null}
        aria-invalid={problem !== null}
        aria-describedby={`${id}-about`}
        onChange={({ target }) => onFiles([...(target.files ?? [])])}
      />
      <p id={`${id}-about`} className={problem === null ? css.hint : css.problem}>
        {problem ?? closed ?? `${hint}; choose ${multiple ? "or drop them" : "or drop it"} here`}
      </p>
    </div>
  );
}
