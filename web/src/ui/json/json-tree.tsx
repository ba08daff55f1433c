/** JSON that can be opened and closed part by part. */
import { ChevronDown, ChevronRight } from "lucide-react";
import { type ReactElement, useState } from "react";

import css from "./json-tree.module.css";
import { plain } from "../table/table-columns.js";

interface TreeProps {
  readonly value: unknown;
  /** Called with the keys down to a value that was clicked; left out: values cannot be. */
  readonly onPick?: (path: readonly string[], value: unknown) => void;
}

export function JsonTree({ value, onPick }: TreeProps): ReactElement {
  return (
    <div className={css.tree}>
      <Node value={value} path={[]} {...(onPick === undefined ? {} : { onPick })} />
    </div>
  );
}

/** Lists longer than this show their first entries. */
const mostEntries = 200;

function Node({ value, path, onPick }: TreeProps & { readonly path: readonly string[] }): ReactElement {
  const [open, setOpen] = useState(path.length < 2);
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) {
    const leaf = <Leaf value={value} />;
    return onPick === undefined ? (
      leaf
    ) : (
      <button type="button" className={css.pick} onClick={() => onPick(path, value)}>
        {leaf}
      </button>
    );
  }
  const entries = Object.entries(value);
  const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) {
    return <span>{`${begin}${end}`}</span>;
  }
  const list = (
    <ul>
      {entries.slice(0, mostEntries).map(([key, child]) => (
        <li key={key}>
          <span className={css.key}>{key}: </span>
          <Node value={child} path={[...path, key]} {...(onPick === undefined ? {} : { onPick })} />
        </li>
      ))}
      {entries.length > mostEntries ? <li className={css.key}>{entries.length - mostEntries} more</li> : null}
    </ul>
  );
  if (path.length === 0) {
    return list;
  }
  return (
    <>
      <button type="button" className={css.toggle} aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? <ChevronDown aria-hidden /> : <ChevronRight aria-hidden />}
        {open ? begin : `${begin} ${entries.length} ${end}`}
      </button>
      {open ? list : null}
    </>
  );
}

function Leaf({ value }: { readonly value: unknown }): ReactElement {
  const kind = typeof value;
  const look = kind === "string" ? css.string : kind === "number" || kind === "bigint" ? css.number : css.word;
  const text = kind === "string" ? String(value) : JSON.stringify(value, plain);
  return <span className={look}>{text}</span>;
}
