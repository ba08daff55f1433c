/** Attributes of a row as a list that can be filtered by; nested ones open as a tree. */
import { Columns3, Filter, FilterX } from "lucide-react";
import { type ReactElement, useState } from "react";

import { Button, CopyButton, IconButton } from "../ui/controls/controls.js";
import { parseJson } from "../ui/json/json.js";
import { JsonTree } from "../ui/json/json-tree.js";
import { formatNumber, nothing } from "../ui/format.js";
import type { Property } from "./property.js";
import css from "./properties.module.css";

interface PropertiesProps {
  readonly title: string;
  readonly properties: readonly Property[];
  readonly onFilter?: (name: string, value: string | null, exclude: boolean) => void;
  /** Shows it as a column of the list, or no longer. */
  readonly onColumn?: (name: string) => void;
}

/** A list longer than this shows its first entries. More of them hold up the page. */
const mostEntries = 200;

export function Properties({ title, properties, onFilter, onColumn }: PropertiesProps): ReactElement | null {
  const [whole, setWhole] = useState<readonly Property[] | null>(null);
  const shown = whole === properties ? properties : properties.slice(0, mostEntries);
  return properties.length === 0 ? null : (
    <section className={css.part} aria-label={title}>
      <h3>{title}</h3>
      <dl>
        {shown.map(({ name, value }) => (
          <div key={name} className={css.row}>
            <dt>{name}</dt>
            <dd className={css.value}>
              <Shown value={value} />
            </dd>
            <dd className={css.acts}>
              {onFilter === undefined ? null : (
                <>
                  <IconButton label={`Only this ${name}`} onClick={() => onFilter(name, value, false)}>
                    <Filter />
                  </IconButton>
                  <IconButton label={`Without this ${name}`} onClick={() => onFilter(name, value, true)}>
                    <FilterX />
                  </IconButton>
                </>
              )}
              {onColumn === undefined ? null : (
                <IconButton label={`${name} as a column`} onClick={() => onColumn(name)}>
                  <Columns3 />
                </IconButton>
              )}
              {value === null ? null : <CopyButton text={value} label={`Copy ${name}`} />}
            </dd>
          </div>
        ))}
      </dl>
      {shown.length === properties.length ? null : (
        <Button look="quiet" onClick={() => setWhole(properties)}>
          Show all {formatNumber(properties.length)}
        </Button>
      )}
    </section>
  );
}

function Shown({ value }: { readonly value: string | null }): ReactElement {
  const json = value === null ? null : parseJson(value);
  return json === null ? <>{value ?? nothing}</> : <JsonTree value={json} />;
}
