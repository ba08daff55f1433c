/** All screens by folder; new ones, and those from files. */
import { Link, useNavigate } from "@tanstack/react-router";
import { LayoutDashboard, Plus, Upload } from "lucide-react";
import { type ReactElement, useRef, useState } from "react";

import { ApiError, PlainError } from "../api/error.js";
import type { ScreenRow } from "../api/wire.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { AddressInput, Button, Dialog, TextField } from "../ui/controls.js";
import { formatTime } from "../ui/format.js";
import { EmptyState, ErrorPart, Skeleton, toast } from "../ui/states.js";
import css from "./screen.module.css";
import { readScreenFile } from "./screen-file.js";
import { newCell, screenFormat } from "./screen-model.js";
import { putScreen, useScreens } from "./screens-api.js";

export default function ScreensPage(): ReactElement {
  const { data, error, refetch } = useScreens();
  const navigate = useNavigate();
  const search = useSearchParameters();
  const changeSearch = useChangeSearch();
  const [naming, setNaming] = useState(false);
  const [problem, setProblem] = useState<unknown>(null);
  const files = useRef<HTMLInputElement | null>(null);
  const wanted = textOf(search["find"]) ?? "";

  const create = async (name: string, folder: string | null, config: unknown): Promise<void> => {
    setProblem(null);
    try {
      await putScreen(name, { folder, config, version: 0 });
      await refetch();
      await navigate({ to: "/screen/$name", params: { name } } as never);
    } catch (failure) {
      setProblem(
        failure instanceof ApiError && failure.status === 409
          ? new PlainError(`There is a screen ${name} already. Choose another name, or delete that one first.`)
          : failure,
      );
    }
  };
  const take = async (file: File | undefined): Promise<void> => {
    if (file === undefined) {
      return;
    }
    setProblem(null);
    try {
      const { name, folder, config } = readScreenFile(await file.text());
      await create(name, folder, config);
      toast("Imported", name);
    } catch (failure) {
      setProblem(failure);
    }
  };
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
          <Button onClick={() => files.current?.click()}>
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
            void take(target.files?.[0]);
            target.value = "";
          }}
        />
      </header>
      {problem === null ? null : <ErrorPart error={problem} title="There is no new screen" />}
      {error === null ? null : <ErrorPart error={error} onRetry={() => void refetch()} />}
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
        onClose={() => setNaming(false)}
        onName={(name) => {
          setNaming(false);
          void create(name, null, {
            format: screenFormat,
            cells: [{ ...newCell("markdown"), text: `# ${name}` }, newCell("chart"), newCell("log")],
          });
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
                    {owner}, changed {formatTime(Date.parse(at))}
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
  onClose,
  onName,
}: {
  readonly open: boolean;
  readonly onClose: () => void;
  readonly onName: (name: string) => void;
}): ReactElement {
  const [name, setName] = useState("");
  const problem = name === "" || screenName.test(name) ? null : "no slashes, and no white space around it";
  const isGood = name !== "" && problem === null;
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="New screen"
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="primary" disabled={!isGood} onClick={() => onName(name)}>
            Make it
          </Button>
        </>
      }
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isGood) {
            onName(name);
          }
        }}
      >
        <TextField label="Name" value={name} problem={problem} onChange={({ target }) => setName(target.value)} />
      </form>
    </Dialog>
  );
}
