/** All screens by folder; new ones, and those from files. */
import { Link, useNavigate } from "@tanstack/react-router";
import { LayoutDashboard, Plus, Upload } from "lucide-react";
import { type ReactElement, useRef, useState } from "react";

import { type Task, useTask } from "../admin/api.js";
import { ApiError, PlainError } from "../api/error.js";
import type { ScreenRow } from "../api/wire.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { AddressInput, Button, Dialog, TextField } from "../ui/controls/controls.js";
import { formatTime } from "../ui/format.js";
import { EmptyState, ErrorPart, LoadingLine, Skeleton } from "../ui/states.js";
import { toast } from "../ui/toast.js";
import css from "./screen.module.css";
import { readOnlyScreen } from "./screen-files.js";
import { newCell, screenFormat } from "./screen-model.js";
import { putScreen, useScreens } from "./screens-api.js";

export default function ScreensPage(): ReactElement {
  const { data, error, refetch } = useScreens();
  const navigate = useNavigate();
  const search = useSearchParameters();
  const changeSearch = useChangeSearch();
  const [naming, setNaming] = useState(false);
  const files = useRef<HTMLInputElement | null>(null);
  const wanted = textOf(search["find"]) ?? "";

  /** @returns what opens it */
  const create = async (name: string, folder: string | null, config: unknown): Promise<() => void> => {
    try {
      await putScreen(name, { folder, config, version: 0 });
    } catch (failure) {
      throw failure instanceof ApiError && failure.status === 409
        ? new PlainError(`There is a screen ${name} already. Choose another name, or delete that one first.`)
        : failure;
    }
    await refetch();
    return () => void navigate({ to: "/screen/$name", params: { name } } as never);
  };
  const making = useTask((name: string) =>
    create(name, null, {
      format: screenFormat,
      cells: [{ ...newCell("markdown"), text: `# ${name}` }, newCell("chart"), newCell("log")],
    }),
  );
  const taking = useTask(async (file: File) => {
    const { name, folder, config } = readOnlyScreen(await file.text(), file.name);
    const open = await create(name, folder, config);
    toast("Imported", name);
    return open;
  });
  const failure = taking.error ?? (naming ? null : making.error);
  const shown = (data ?? []).filter(({ name, folder }) =>
    `${folder ?? ""} ${name}`.toLowerCase().includes(wanted.toLowerCase()),
  );
  return (
    <div className={css.page}>
      <header className={css.head}>
        <AddressInput
          aria-label="Find a screen"
          placeholder="Find a screen"
          value={wanted}
          onType={(typed) => changeSearch({ find: typed || undefined }, { replace: true })}
        />
        <span className={css.actions}>
          <Button busy={taking.busy} onClick={() => files.current?.click()}>
            <Upload /> Import a file
          </Button>
          <Button look="primary" onClick={() => setNaming(true)}>
            <Plus /> New screen
          </Button>
        </span>
        <input
          ref={files}
          type="file"
          accept="application/json,.json"
          aria-label="File of a screen"
          hidden
          onChange={({ target }) => {
            const [file] = target.files ?? [];
            if (file !== undefined) {
              taking.run(file);
            }
            target.value = "";
          }}
        />
      </header>
      <LoadingLine running={taking.busy} />
      <div className={css.notes}>
        {failure === null ? null : <ErrorPart error={failure} title="There is no new screen" />}
        {error === null ? null : (
          <ErrorPart error={error} title="The screens could not be read" onRetry={() => void refetch()} />
        )}
      </div>
      {data === undefined ? (
        error === null ? (
          <Skeleton />
        ) : null
      ) : shown.length === 0 ? (
        <EmptyState
          icon={<LayoutDashboard />}
          title={data.length === 0 ? "There are no screens yet" : "No screen is called that"}
        >
          A screen is a page of your own: text, charts, tables, logs and traces over one time range, with variables, for
          everybody who works here.
        </EmptyState>
      ) : (
        <Folders screens={shown} />
      )}
      <NewScreen
        open={naming}
        task={making}
        onClose={() => {
          setNaming(false);
          if (!making.busy) {
            making.reset();
          }
        }}
      />
    </div>
  );
}

function Folders({ screens }: { readonly screens: readonly ScreenRow[] }): ReactElement {
  const folders = [...new Set(screens.map(({ folder }) => folder))].toSorted((a, b) =>
    (a ?? "").localeCompare(b ?? ""),
  );
  return (
    <div className={css.folders}>
      {folders.map((folder) => (
        <section key={folder ?? ""} aria-label={folder ?? "In no folder"}>
          <h2 className={css.title}>{folder ?? "In no folder"}</h2>
          <ul className={css.list}>
            {screens
              .filter((screen) => screen.folder === folder)
              .map(({ name, owner, updated_at: at }) => (
                <li key={name}>
                  <Link to={`/screen/${encodeURIComponent(name)}`}>{name}</Link>
                  <span className={css.hint}>
                    {owner}, changed {formatTime(Date.parse(at), { digits: 0 })}
                  </span>
                </li>
              ))}
          </ul>
        </section>
      ))}
    </div>
  );
}

/** As the server takes it: one segment of a path. */
const screenName = /^(?!\.{1,2}$)[^\s\p{Cc}/\\](?:[^\p{Cc}/\\]*[^\s\p{Cc}/\\])?$/u;

function NewScreen({
  open,
  task,
  onClose,
}: {
  readonly open: boolean;
  readonly task: Task<readonly [name: string]>;
  readonly onClose: () => void;
}): ReactElement {
  const [name, setName] = useState("");
  const problem = name === "" || screenName.test(name) ? null : "No slashes, and no white space around it";
  const make = (): void => {
    if (name !== "" && problem === null) {
      task.run(name);
    }
  };
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="New screen"
      actions={
        <>
          <Button onClick={onClose}>{task.busy ? "Close" : "Cancel"}</Button>
          <Button look="primary" busy={task.busy} disabled={name === "" || problem !== null} onClick={make}>
            {task.busy ? "One moment…" : "Make it"}
          </Button>
        </>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          make();
        }}
      >
        <TextField label="Name" value={name} problem={problem} onChange={({ target }) => setName(target.value)} />
      </form>
      {task.error === null ? null : <ErrorPart error={task.error} title="There is no new screen" />}
    </Dialog>
  );
}
