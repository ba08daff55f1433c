/** The fields of a cell while its screen is edited. */
import { ArrowDown, ArrowUp, Plus, Trash2 } from "lucide-react";
import { type ReactElement, type ReactNode, useLayoutEffect, useRef } from "react";
import { nameProblem } from "telemetry-service-client/shared/screen-variables";

import { Button, IconButton, Menu, MenuItem, SelectField, TextField } from "../ui/controls/controls.js";
import { SqlEditor } from "../sql/sql-editor.js";
import { MapSelect } from "./map/map-select.js";
import css from "./screen.module.css";
import {
  type Cell,
  type CellKind,
  type ChartCell,
  type LeafCell,
  type MapCell,
  newCell,
  titleOf,
  type VariableCell,
} from "./screen-model.js";

const kindNames: Readonly<Record<CellKind, string>> = {
  markdown: "Text",
  chart: "Chart",
  table: "Table",
  log: "Log",
  trace: "Trace",
  map: "Map",
  variable: "Variable",
  group: "Group, side by side",
};
const kinds = Object.keys(kindNames) as CellKind[];
const units = ["", "1", "By", "ns", "ms", "s"].map((unit) => ({ value: unit, label: unit === "" ? "none" : unit }));

/** A list of cells, with what changes it. */
export function CellsEditor<T extends Cell>({
  cells,
  onChange,
  onRun,
  view = null,
}: {
  readonly cells: readonly T[];
  readonly onChange: (cells: readonly T[]) => void;
  /** Shows at once what is typed. */
  readonly onRun: () => void;
  /** Shows a cell below its fields; null: within a group, which shows its cells side by side and holds no groups. */
  readonly view?: ((id: string) => ReactNode) | null;
}): ReactElement {
  const list = useRef<HTMLDivElement | null>(null);
  const removed = useRef<number | null>(null);
  const placed = useRef<number | null>(null);
  // Who removed a cell goes on at the one in its place, or at what is around them all; one that is new or
  // was moved comes into view, its head at least.
  useLayoutEffect(() => {
    const sections = list.current?.querySelectorAll<HTMLElement>(":scope > section") ?? [];
    const last = sections[sections.length - 1];
    if (removed.current !== null) {
      (sections[removed.current] ?? last ?? list.current?.closest<HTMLElement>("[tabindex]"))?.focus();
      removed.current = null;
    } else if (placed.current !== null) {
      const section = sections[placed.current];
      section?.scrollIntoView({ block: "nearest" });
      section?.querySelector("header")?.scrollIntoView({ block: "nearest" });
      placed.current = null;
    }
  }, [cells]);
  const swap = (at: number, by: number): void => {
    placed.current = at + by;
    const moved = [...cells];
    const [cell] = moved.splice(at, 1);
    if (cell !== undefined) {
      moved.splice(at + by, 0, cell);
    }
    onChange(moved);
  };
  return (
    <div ref={list} className={css.editors}>
      {cells.map((cell, at) => (
        <section
          key={cell.id}
          className={css.editor}
          aria-label={`${kindNames[cell.kind]}: ${titleOf(cell)}`}
          tabIndex={-1}
        >
          <header className={css.editorHead}>
            <strong>{kindNames[cell.kind]}</strong>
            {/* Busy, not disabled: who has moved it as far as it goes keeps the focus. */}
            <IconButton label="Move up" busy={at === 0} onClick={() => swap(at, -1)}>
              <ArrowUp />
            </IconButton>
            <IconButton label="Move down" busy={at === cells.length - 1} onClick={() => swap(at, 1)}>
              <ArrowDown />
            </IconButton>
            <IconButton
              label="Remove cell"
              onClick={() => {
                removed.current = at;
                onChange(cells.filter(({ id }) => id !== cell.id));
              }}
            >
              <Trash2 />
            </IconButton>
          </header>
          {cell.kind === "group" ? (
            <CellsEditor
              cells={cell.cells}
              onRun={onRun}
              onChange={(inner) =>
                onChange(cells.map((each) => (each.id === cell.id ? { ...each, cells: inner } : each)))
              }
            />
          ) : (
            <Fields
              cell={cell}
              onRun={onRun}
              onChange={(next) => onChange(cells.map((each) => (each.id === cell.id ? (next as T) : each)))}
            />
          )}
          {view === null ? null : <div className={css.preview}>{view(cell.id)}</div>}
        </section>
      ))}
      <Menu
        align="start"
        trigger={
          <Button>
            <Plus /> Add a cell
          </Button>
        }
      >
        {kinds
          .filter((kind) => view !== null || kind !== "group")
          .map((kind) => (
            <MenuItem
              key={kind}
              onClick={() => {
                placed.current = cells.length;
                onChange([...cells, newCell(kind) as T]);
              }}
            >
              {kindNames[kind]}
            </MenuItem>
          ))}
      </Menu>
    </div>
  );
}

interface FieldsProps<T extends LeafCell> {
  readonly cell: T;
  readonly onChange: (cell: T) => void;
}
type SqlFieldsProps<T extends LeafCell> = FieldsProps<T> & { readonly onRun: () => void };

function Fields({ cell, onChange, onRun }: SqlFieldsProps<LeafCell>): ReactElement {
  switch (cell.kind) {
    case "markdown":
      return (
        <textarea
          className={css.text}
          aria-label="Markdown"
          rows={6}
          value={cell.text}
          onChange={({ target }) => onChange({ ...cell, text: target.value })}
        />
      );
    case "chart":
      return <ChartFields cell={cell} onChange={onChange} onRun={onRun} />;
    case "table":
      return (
        <>
          <TitleField cell={cell} onChange={onChange} />
          <Sql sql={cell.sql} onRun={onRun} onChange={(sql) => onChange({ ...cell, sql })} />
        </>
      );
    case "log":
      return (
        <>
          <TitleField cell={cell} onChange={onChange} />
          <TextField
            label="Condition"
            hint="SQL after WHERE over log_entries; nothing for all"
            value={cell.where}
            onChange={({ target }) => onChange({ ...cell, where: target.value })}
          />
        </>
      );
    case "trace":
      return (
        <>
          <TitleField cell={cell} onChange={onChange} />
          <TextField
            label="Trace"
            hint="a trace id, or a variable such as $trace"
            value={cell.trace}
            onChange={({ target }) => onChange({ ...cell, trace: target.value })}
          />
        </>
      );
    case "map":
      return <MapFields cell={cell} onChange={onChange} onRun={onRun} />;
    case "variable":
      return <VariableFields cell={cell} onChange={onChange} onRun={onRun} />;
  }
}

type TitledCell = Extract<LeafCell, { readonly title: string }>;

function TitleField<T extends TitledCell>({ cell, onChange }: FieldsProps<T>): ReactElement {
  return (
    <TextField label="Title" value={cell.title} onChange={({ target }) => onChange({ ...cell, title: target.value })} />
  );
}

function ChartFields({ cell, onChange, onRun }: SqlFieldsProps<ChartCell>): ReactElement {
  return (
    <>
      <div className={css.fields}>
        <TitleField cell={cell} onChange={onChange} />
        <SelectField
          label="Drawn as"
          value={cell.look}
          options={[
            { value: "lines", label: "Lines" },
            { value: "bars", label: "Bars" },
          ]}
          onChange={(look) => onChange({ ...cell, look: look === "bars" ? "bars" : "lines" })}
        />
        <SelectField label="Unit" value={cell.unit} options={units} onChange={(unit) => onChange({ ...cell, unit })} />
      </div>
      <Sql sql={cell.sql} onRun={onRun} onChange={(sql) => onChange({ ...cell, sql })} />
      <p className={css.hint}>
        The first time or date is the axis, numbers are values, the first text tells series apart. $interval is the
        seconds of a bucket that fits the width; $name is a variable.
      </p>
    </>
  );
}

function MapFields({ cell, onChange, onRun }: SqlFieldsProps<MapCell>): ReactElement {
  return (
    <>
      <div className={css.fields}>
        <TitleField cell={cell} onChange={onChange} />
        <MapSelect file={cell.file} onChange={(file) => onChange({ ...cell, file })} />
      </div>
      <Sql sql={cell.sql} onRun={onRun} onChange={(sql) => onChange({ ...cell, sql })} />
      <p className={css.hint}>
        Columns x, y and z place a row in the scene of the map, in its units, y up; label says what it is, and value
        colours it.
      </p>
    </>
  );
}

function VariableFields({ cell, onChange, onRun }: SqlFieldsProps<VariableCell>): ReactElement {
  return (
    <>
      <div className={css.fields}>
        <TextField
          label="Name"
          hint="cells say $name"
          value={cell.name}
          problem={nameProblem(cell.name)}
          onChange={({ target }) => onChange({ ...cell, name: target.value })}
        />
        <TextField
          label="Label"
          value={cell.label}
          onChange={({ target }) => onChange({ ...cell, label: target.value })}
        />
        <SelectField
          label="Type"
          value={cell.type}
          options={[
            { value: "text", label: "Text" },
            { value: "number", label: "Number" },
          ]}
          onChange={(type) => onChange({ ...cell, type: type === "number" ? "number" : "text" })}
        />
        <TextField
          label="Value at first"
          value={cell.value}
          onChange={({ target }) => onChange({ ...cell, value: target.value })}
        />
      </div>
      <Sql sql={cell.sql} onRun={onRun} onChange={(sql) => onChange({ ...cell, sql })} />
      <p className={css.hint}>
        The first column of the query is what there is to choose from; without a query the value is typed. For a value
        that may be empty, write ($name = '' OR service_name = $name).
      </p>
    </>
  );
}

function Sql(o: {
  readonly sql: string;
  readonly onChange: (sql: string) => void;
  readonly onRun: () => void;
}): ReactElement {
  return (
    <div className={css.sql}>
      <SqlEditor label="SQL" value={o.sql} onChange={o.onChange} onRun={o.onRun} />
    </div>
  );
}
