/** A screen: its cells from top to bottom, and, for those who may, its editing. Variables are in the address. */
import { useBlocker, useParams } from "@tanstack/react-router";
import { Download, History, Pencil, Save, Trash2, X } from "lucide-react";
import { type ReactElement, type RefObject, useEffect, useMemo, useRef, useState } from "react";

import { ConfirmDialog } from "../admin/form.js";
import { ApiError } from "../api/error.js";
import { useMyAudiences } from "../api/routes.js";
import type { Screen } from "../api/wire.js";
import { usePerson } from "../api/session.js";
import { textOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { Button, Dialog, IconButton, Select } from "../ui/controls/controls.js";
import { formatTime, oneLine } from "../ui/format.js";
import { Panel, Split } from "../ui/panel.js";
import { LinkButton } from "../ui/controls/link-button.js";
import { Banner, EmptyState, ErrorPart, Skeleton } from "../ui/states.js";
import { CellsEditor } from "./cell-editor.js";
import type { CellContext } from "./cell-query.js";
import { CellView } from "./cells.js";
import css from "./screen.module.css";
import { downloadScreens } from "./screen-files.js";
import { differencesOf, type ScreenConfig, type ScreenState, variablesOf } from "./screen-model.js";
import { useFolders, useScreen, useScreenVersions } from "./screens-api.js";
import { parsedConfig, useEditing } from "./use-editing.js";
import { numberOf, type VariableValue } from "./variables.js";

export default function ScreenPage(): ReactElement {
  const { name = "" } = useParams({ strict: false });
  const { data, error, refetch } = useScreen(name);
  if (error instanceof ApiError && error.status === 404) {
    return (
      <EmptyState title={`No screen is called “${name}”`} actions={<LinkButton to="/screens">All screens</LinkButton>}>
        It may have been deleted or saved under another name.
      </EmptyState>
    );
  }
  if (error !== null) {
    return (
      <div className={css.notes}>
        <ErrorPart error={error} title="The screen cannot be read" onRetry={() => void refetch()} />
      </div>
    );
  }
  return data === undefined ? <Skeleton /> : <Loaded key={data.name} screen={data} />;
}

function Loaded({ screen }: { readonly screen: Screen }): ReactElement {
  const [deleting, setDeleting] = useState(false);
  const [history, setHistory] = useState(false);
  const editing = useEditing(screen);
  const { saved, parsed, draft, edit, isChanged, problem, theirs } = editing;
  const mayWrite = useMayWrite(saved);
  const [rested, showNow] = useRested(draft?.config ?? parsed.config, restMs);
  const config = draft === null ? parsed.config : rested;
  const isConflict = theirs !== null && draft !== null;
  const failure = (isConflict ? null : problem) ?? editing.restore.error ?? (deleting ? null : editing.remove.error);
  const context = useCellContext(config);
  const page = useRef<HTMLDivElement | null>(null);
  const editors = useRef<HTMLDivElement | null>(null);
  useFocusWhere(draft !== null, editors, page);
  useBlocker({
    shouldBlockFn: ({ current, next }) =>
      isChanged && current.pathname !== next.pathname && !window.confirm("Leave without saving what you changed?"),
    enableBeforeUnload: () => isChanged,
  });

  return (
    <Split
      panel={
        history ? (
          <Versions
            screen={saved}
            mayWrite={mayWrite}
            restoring={editing.restore.busy}
            onRestore={(version) => editing.restore.run(version, () => setHistory(false))}
            onClose={() => setHistory(false)}
          />
        ) : null
      }
    >
      <div ref={page} className={css.page} tabIndex={-1}>
        <header className={css.head}>
          <h2>{saved.name}</h2>
          <span className={css.hint}>
            {saved.folder === null ? "" : `in ${oneLine(saved.folder)}, `}version {saved.version} by {saved.updated_by}
          </span>
          <span className={css.actions}>
            {draft === null ? (
              <Actions
                mayEdit={mayWrite && parsed.problem === null}
                onHistory={() => setHistory(!history)}
                onExport={() => downloadScreens(saved.name, [saved])}
                onDelete={() => setDeleting(true)}
                onEdit={() => edit({ config: parsed.config, folder: saved.folder })}
              />
            ) : (
              <>
                <FolderSelect folder={draft.folder} onChange={(folder) => edit({ ...draft, folder })} />
                <Button onClick={() => edit(null)}>
                  <X /> {isChanged ? "Discard" : "Close"}
                </Button>
                <Button
                  look="primary"
                  busy={editing.saving}
                  disabled={!isChanged}
                  onClick={() => editing.save(saved.version)}
                >
                  <Save /> Save
                </Button>
              </>
            )}
          </span>
        </header>
        <div className={css.notes}>
          {failure === null ? null : <ErrorPart error={failure} title="That was not done" />}
          {parsed.problem === null ? null : <Banner kind="warn">{parsed.problem}</Banner>}
        </div>
        {draft === null ? (
          <div className={css.cells}>
            {config.cells.length === 0 && parsed.problem === null ? (
              <EmptyState title="This screen is empty">Edit it to add text, charts, tables and variables.</EmptyState>
            ) : (
              config.cells.map((cell) => <CellView key={cell.id} cell={cell} context={context} />)
            )}
          </div>
        ) : (
          <div ref={editors} tabIndex={-1} role="group" aria-label="Cells">
            <CellsEditor
              cells={draft.config.cells}
              onChange={(cells) => edit({ ...draft, config: { ...draft.config, cells } })}
              onRun={showNow}
              view={(id) => {
                const cell = config.cells.find((each) => each.id === id);
                return cell === undefined ? null : <CellView cell={cell} context={context} />;
              }}
            />
          </div>
        )}
      </div>
      <ConfirmDialog
        open={deleting}
        title={`Delete ${saved.name}?`}
        confirm="Delete with all versions"
        task={editing.remove}
        onClose={() => setDeleting(false)}
      >
        <p>The screen and its versions go for everybody. Export it first to keep a copy.</p>
      </ConfirmDialog>
      {isConflict ? (
        <Conflict
          mine={draft}
          base={{ config: parsed.config, folder: saved.folder }}
          theirs={theirs}
          problem={problem}
          onClose={editing.goOn}
          onTake={editing.takeTheirs}
          onOverwrite={() => editing.save(theirs.version)}
        />
      ) : null}
    </Split>
  );
}

function Actions(o: {
  readonly mayEdit: boolean;
  readonly onHistory: () => void;
  readonly onExport: () => void;
  readonly onDelete: () => void;
  readonly onEdit: () => void;
}): ReactElement {
  return (
    <>
      <IconButton label="Versions" onClick={o.onHistory}>
        <History />
      </IconButton>
      <IconButton label="Export as a file" onClick={o.onExport}>
        <Download />
      </IconButton>
      {o.mayEdit ? (
        <>
          <IconButton label="Delete screen" onClick={o.onDelete}>
            <Trash2 />
          </IconButton>
          <Button onClick={o.onEdit}>
            <Pencil /> Edit
          </Button>
        </>
      ) : null}
    </>
  );
}

/** Somebody else has saved the screen meanwhile: what they changed, and what to do. */
function Conflict(o: {
  readonly mine: ScreenState;
  readonly base: ScreenState;
  readonly theirs: Screen;
  /** Why the draft was not saved over it. */
  readonly problem: unknown;
  readonly onClose: () => void;
  readonly onTake: () => void;
  readonly onOverwrite: () => void;
}): ReactElement {
  const { theirs, base, mine } = o;
  const other = parsedConfig(theirs.config);
  const list = (lines: readonly string[]): ReactElement =>
    lines.length === 0 ? (
      <p>nothing that a screen shows</p>
    ) : (
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    );
  return (
    <Dialog
      open
      onClose={o.onClose}
      title={`${theirs.updated_by} has saved this screen meanwhile`}
      actions={
        <>
          <Button onClick={o.onClose}>Go on editing</Button>
          <Button onClick={o.onTake}>Take theirs, drop mine</Button>
          <Button look="danger" onClick={o.onOverwrite}>
            Save mine over theirs
          </Button>
        </>
      }
    >
      <div className={css.conflict}>
        <p>
          Version {theirs.version}, {formatTime(Date.parse(theirs.updated_at), { digits: 0 })}
          {other.problem === null ? ". They changed:" : ""}
        </p>
        {other.problem === null ? (
          list(differencesOf(base, { config: other.config, folder: theirs.folder }))
        ) : (
          <Banner kind="warn">{other.problem}</Banner>
        )}
        <p>You changed:</p>
        {list(differencesOf(base, mine))}
        {o.problem === null ? null : <ErrorPart error={o.problem} title="That was not done" />}
      </div>
    </Dialog>
  );
}

function Versions({
  screen,
  mayWrite,
  restoring,
  onRestore,
  onClose,
}: {
  readonly screen: Screen;
  readonly mayWrite: boolean;
  readonly restoring: boolean;
  readonly onRestore: (version: number) => void;
  readonly onClose: () => void;
}): ReactElement {
  const { data, error, refetch } = useScreenVersions(screen);
  return (
    <Panel title="Versions" onClose={onClose}>
      {error === null ? null : (
        <ErrorPart error={error} title="The versions cannot be read" onRetry={() => void refetch()} />
      )}
      {data === undefined && error === null ? <Skeleton rows={3} /> : null}
      <ul className={css.versions}>
        {data?.map(({ version, saved_at: at, saved_by: by }) => (
          <li key={version}>
            <strong>{version}</strong>
            <span className={css.versionOf}>
              {formatTime(Date.parse(at), { digits: 0 })} by {by}
            </span>
            {version === screen.version ? (
              <span className={css.hint}>{version === data[0]?.version ? "the present one" : "shown here"}</span>
            ) : mayWrite ? (
              <Button busy={restoring} aria-label={`Edit version ${version}`} onClick={() => onRestore(version)}>
                Edit
              </Button>
            ) : null}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function FolderSelect({
  folder,
  onChange,
}: {
  readonly folder: string | null;
  readonly onChange: (folder: string | null) => void;
}): ReactElement {
  const { data = [] } = useFolders();
  const names = [...new Set([...data.map(({ name }) => name), ...(folder === null ? [] : [folder])])];
  return (
    <Select
      label="Folder"
      value={folder ?? ""}
      options={[{ value: "", label: "No folder" }, ...names.map((name) => ({ value: name, label: name }))]}
      onChange={(name) => onChange(name === "" ? null : name)}
    />
  );
}

/** Who begins to edit goes on at the first cell, and who ends it in the page: the button that did it is gone. */
function useFocusWhere(
  isEditing: boolean,
  editors: RefObject<HTMLElement | null>,
  page: RefObject<HTMLElement | null>,
): void {
  const before = useRef(isEditing);
  useEffect(() => {
    if (isEditing && !before.current) {
      page.current?.scrollTo({ top: 0 });
      editors.current?.focus({ preventScroll: true });
    } else if (!isEditing && before.current && document.activeElement === document.body) {
      page.current?.focus({ preventScroll: true });
    }
    before.current = isEditing;
  }, [isEditing, editors, page]);
}

/** While somebody types, queries are half written; they would run, and fail, with each letter. */
const restMs = 500;

/** What a value was when it last stayed for a time; the function takes it as it is now. */
function useRested<T>(value: T, ms: number): readonly [rested: T, takeNow: () => void] {
  const [rested, setRested] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return [rested, () => setRested(value)];
}

/** The server decides; this decides what is offered. */
function useMayWrite(screen: Screen): boolean {
  const person = usePerson();
  const { data } = useMyAudiences();
  return data?.is_admin === true || person.email === screen.owner;
}

/** Values of variables: those of the address (`var-name`), else those that the screen begins with. */
function useCellContext(config: ScreenConfig): CellContext {
  const search = useSearchParameters();
  const change = useChangeSearch();
  return useMemo(() => {
    const values = new Map<string, VariableValue>();
    for (const { name, type, value } of variablesOf(config)) {
      const given = search[`var-${name}`];
      const chosen = given === undefined ? value : (textOf(given) ?? "");
      values.set(name, type === "number" ? numberOf(chosen) : chosen);
    }
    return { values, onValue: (name, value) => change({ [`var-${name}`]: value }) };
  }, [config, JSON.stringify(search), change]);
}
