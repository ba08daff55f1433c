/** Maps: GLB files for cells that place rows in a scene. */
import { Map as MapIcon } from "lucide-react";
import { type ReactElement, useState } from "react";

import type { Map as MapRow } from "../../api/wire.js";
import { call } from "../../api/call.js";
import { apiUrl } from "../../api/http.js";
import { useChangeSearch } from "../../app/search.js";
import { TextField } from "../../ui/controls/controls.js";
import { formatBytes } from "../../ui/format.js";
import { Banner } from "../../ui/states.js";
import { toast } from "../../ui/toast.js";
import type { TableColumn } from "../../ui/table/table-columns.js";
import css from "../admin.module.css";
import { useInvalidate, useList } from "../api.js";
import { useCheckedForm } from "../checked-form.js";
import { ConfirmButton, Form } from "../form.js";
import { Facts, ListPage, numberColumn, textColumn, timeColumn, timeText } from "../list-page.js";
import { FileField } from "../file-field.js";
import { textProblem, textRules } from "../rules.js";
import { glbProblem, mapType } from "./glb.js";

const idOf = ({ file }: MapRow): string => file;

function columnsOf(rows: readonly MapRow[]): readonly TableColumn[] {
  return [
    textColumn(rows, "file", "File", ({ file }) => file, { width: 260 }),
    numberColumn(rows, "bytes", "Size", ({ bytes }) => bytes, formatBytes),
    timeColumn(rows, "updated_at", "Saved", (row) => row.updated_at),
    textColumn(rows, "updated_by", "By", (row) => row.updated_by),
  ];
}

export default function MapsPage(): ReactElement {
  const query = useList<MapRow>(["maps"], "api/maps");
  return (
    <ListPage
      noun="maps"
      intro="A map is a scene in a binary glTF file (GLB, version 2). Cells of screens place rows with x, y and z in it."
      query={query}
      idOf={idOf}
      columns={columnsOf}
      empty={{ icon: <MapIcon />, title: "No map yet", text: "Add a GLB file, for example of a hall or a site." }}
      add={{
        label: "Add a map",
        title: "Add a map",
        form: (close) => <MapForm known={query.data ?? []} onCancel={close} />,
      }}
      panel={(row, close) => ({
        title: row.file,
        body: <MapDetails key={row.file} row={row} onDeleted={close} />,
      })}
    />
  );
}

function MapDetails({ row, onDeleted }: { readonly row: MapRow; readonly onDeleted: () => void }): ReactElement {
  const { file } = row;
  const path = `api/maps/${encodeURIComponent(file)}`;
  const invalidate = useInvalidate();
  return (
    <>
      <Facts
        facts={[
          ["Size", formatBytes(row.bytes)],
          ["Saved", `${timeText(row.updated_at)} by ${row.updated_by}`],
        ]}
      />
      <div className={css.actions}>
        <a href={apiUrl(path)} download={file}>
          Download
        </a>
        <ConfirmButton
          label="Delete…"
          title={`Delete the map “${file}”?`}
          confirm={`Delete “${file}”`}
          done={`The map “${file}” is deleted`}
          onConfirm={async () => {
            await call(path, { method: "DELETE" });
            await invalidate("maps");
            onDeleted();
          }}
        >
          <p>Cells that show it stay empty until they name another one.</p>
        </ConfirmButton>
      </div>
    </>
  );
}

function MapForm({
  known,
  onCancel,
}: {
  readonly known: readonly MapRow[];
  readonly onCancel: () => void;
}): ReactElement {
  const [file, setFile] = useState<File | null>(null);
  const [name, setName] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  const change = useChangeSearch();
  const invalidate = useInvalidate();
  const wrong = problem ?? (file === null ? "Choose a file" : null);
  // The server knows of the name alone, which it calls file.
  const problems = { chosen: wrong, file: file === null ? null : textProblem("file", name, textRules.mapFile) };
  const {
    task,
    form,
    problem: shown,
  } = useCheckedForm(problems, async () => {
    if (file === null) {
      return undefined;
    }
    const body = new Blob([file], { type: mapType });
    await call(`api/maps/${encodeURIComponent(name)}`, { method: "PUT", body });
    await invalidate("maps");
    toast(`The map “${name}” is saved`);
    return () => change({ new: undefined, open: name });
  });
  const take = async (chosen: File | null): Promise<void> => {
    setFile(chosen);
    task.reset();
    setName(chosen === null ? "" : chosen.name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-").replace(/\.glb$/i, ".glb"));
    setProblem(chosen === null ? null : await glbProblem(chosen));
  };
  return (
    <Form label="Add a map" submit={task.busy ? "Sending…" : "Save the map"} onCancel={onCancel} {...form}>
      <FileField
        label="File"
        accept=".glb,model/gltf-binary"
        hint="GLB, at most 64 MiB"
        problem={problem ?? shown("chosen")}
        onFiles={([first]) => void take(first ?? null)}
      />
      <TextField
        label="Name here"
        value={name}
        spellCheck={false}
        onChange={({ target }) => setName(target.value)}
        problem={shown("file")}
      />
      {known.some((each) => each.file === name) ? (
        <Banner kind="warn">There is a map of this name. Saving puts this file in its place.</Banner>
      ) : null}
    </Form>
  );
}
