/** Screens from files: what each would do is shown first, and nothing that others have is overwritten unasked. */
import { FileUp } from "lucide-react";
import { type ReactElement, useRef, useState } from "react";
import { readScreens, type ScreenFile } from "telemetry-service-client/shared/screen-files";

import { call } from "../../api/call.js";
import type { Screen } from "../../api/wire.js";
import { ApiError, wordsOf } from "../../api/error.js";
import { checkVariables, parseScreen } from "../../screens/screen-model.js";
import { Button, Checkbox } from "../../ui/controls/controls.js";
import { formatNumber, oneLine } from "../../ui/format.js";
import { Banner, LoadingLine } from "../../ui/states.js";
import admin from "../admin.module.css";
import { listAll, useInvalidate, useList, useTask } from "../api.js";
import { FileField } from "../file-field.js";
import { AdminError } from "../form.js";
import { isSameConfig } from "./same-config.js";
import css from "./screens.module.css";

/** A screen of a file against that of the server. */
interface Candidate {
  readonly screen: ScreenFile;
  /** Null: there is none of this name. */
  readonly present: Screen | null;
  readonly state: "new" | "same" | "different";
  readonly chosen: boolean;
  /** Null before it was tried. */
  readonly outcome: "saved" | { readonly error: unknown } | null;
}

const maxFileBytes = 32 * 1024 * 1024;

export default function ImportPage(): ReactElement {
  const folders = useList<{ readonly name: string }>(["folders"], "api/folders");
  const invalidate = useInvalidate();
  const [candidates, setCandidates] = useState<readonly Candidate[] | null>(null);
  const [problems, setProblems] = useState<readonly string[]>([]);
  const chosen = candidates?.filter((each) => each.chosen && each.outcome !== "saved") ?? [];

  const change = (screen: ScreenFile, changes: Partial<Candidate>): void =>
    setCandidates((before) => before?.map((each) => (each.screen === screen ? { ...each, ...changes } : each)) ?? null);

  const newest = useRef<readonly File[]>([]);
  const look = useTask(async () => {
    setCandidates(null);
    setProblems([]);
    for (;;) {
      const files = newest.current;
      const isNewest = (): boolean => files === newest.current; // others may be chosen while these are compared
      try {
        const { screens, problems: found } = await readFiles(files);
        const compared = screens.length === 0 ? null : await compareAll(screens);
        if (isNewest()) {
          setProblems(found);
          setCandidates(compared);
          return;
        }
      } catch (error) {
        if (isNewest()) {
          throw error;
        }
      }
    }
  });
  const bring = useTask(async () => {
    const known = new Set((folders.data ?? []).map(({ name }) => name));
    for (const candidate of chosen) {
      let outcome: Candidate["outcome"] = "saved";
      try {
        await bringIn(candidate, known);
      } catch (error) {
        outcome = { error };
      }
      change(candidate.screen, { outcome });
    }
    await invalidate("screens", "folders");
  });
  return (
    <div className={admin.scroll}>
      <LoadingLine running={look.busy || bring.busy} />
      <div className={admin.wide}>
        <p className={admin.intro}>
          Files come from Export screens, here or elsewhere, or from <code>telemetry screens pull</code>. Nothing is
          saved before you have seen what would change.
        </p>
        <FileField
          label="Files"
          accept=".json,application/json"
          hint="JSON files of screens"
          multiple
          closed={bring.busy ? "More files can be chosen when these are imported" : null}
          onFiles={(files) => {
            newest.current = files;
            look.run();
          }}
        />
        {problems.map((problem) => (
          <Banner key={problem} kind="error" title="Not read">
            <p>{problem}</p>
          </Banner>
        ))}
        {look.error === null ? null : <AdminError error={look.error} title="Not compared" />}
        {candidates === null ? null : (
          <section className={admin.section} aria-labelledby="candidates">
            <h2 id="candidates">What would change</h2>
            <ul className={css.list} aria-label="Screens of the files">
              {candidates.map((candidate) => (
                <CandidateRow
                  key={candidate.screen.name}
                  candidate={candidate}
                  onChoose={(is) => change(candidate.screen, { chosen: is })}
                />
              ))}
            </ul>
            <div className={admin.actions}>
              <Button look="primary" busy={bring.busy} disabled={chosen.length === 0} onClick={() => bring.run()}>
                <FileUp /> {chosen.length === 1 ? "Import 1 screen" : `Import ${formatNumber(chosen.length)} screens`}
              </Button>
            </div>
            {bring.error === null ? null : <AdminError error={bring.error} />}
          </section>
        )}
      </div>
    </div>
  );
}

const stateWords = {
  new: "new",
  same: "as it is here already",
  different: "differs from the one here, which it would replace",
} as const;

function CandidateRow({
  candidate,
  onChoose,
}: {
  readonly candidate: Candidate;
  readonly onChoose: (chosen: boolean) => void;
}): ReactElement {
  const { screen, present, state, chosen, outcome } = candidate;
  return (
    <li>
      <Checkbox
        checked={chosen}
        disabled={state === "same" || outcome === "saved"}
        onChange={({ target }) => onChoose(target.checked)}
        label={
          <>
            {oneLine(screen.name)}
            <span className={css.about}>
              {screen.folder === null ? "" : `${oneLine(screen.folder)} · `}
              {stateWords[state]}
              {present === null || state === "same" ? "" : ` (version ${present.version} by ${present.updated_by})`}
            </span>
          </>
        }
      />
      {outcome === "saved" ? <Banner kind="good">Saved.</Banner> : null}
      {outcome !== null && outcome !== "saved" ? <AdminError error={outcome.error} title="Not saved" /> : null}
    </li>
  );
}

/** The screens of all files; of two of one name the later file's. */
async function readFiles(
  files: readonly File[],
): Promise<{ readonly screens: readonly ScreenFile[]; readonly problems: readonly string[] }> {
  const screens = new Map<string, ScreenFile>();
  const problems: string[] = [];
  for (const file of files) {
    try {
      if (file.size > maxFileBytes) {
        throw new Error(`${file.name} is larger than 32 MiB`);
      }
      for (const screen of readScreens(await file.text(), file.name)) {
        screens.set(screen.name, screen);
      }
    } catch (error) {
      problems.push(wordsOf(error));
    }
  }
  return { screens: [...screens.values()], problems };
}

async function compareAll(screens: readonly ScreenFile[]): Promise<readonly Candidate[]> {
  const present = new Set((await listAll<{ readonly name: string }>("api/screens")).map(({ name }) => name));
  return await Promise.all(screens.map((screen) => compare(screen, present.has(screen.name))));
}

async function compare(screen: ScreenFile, isPresent: boolean): Promise<Candidate> {
  const present = isPresent ? await readPresent(screen.name) : null;
  const same = present !== null && present.folder === screen.folder && isSameConfig(present.config, screen.config);
  const state = present === null ? "new" : same ? "same" : "different";
  // What would overwrite something is for the person to choose.
  return { screen, present, state, chosen: state === "new", outcome: null };
}

async function readPresent(name: string): Promise<Screen | null> {
  try {
    return await call<Screen>(`api/screens/${encodeURIComponent(name)}`);
  } catch (error) {
    // Deleted in this moment.
    if (error instanceof ApiError && error.code === "NOT_FOUND") {
      return null;
    }
    throw error;
  }
}

/**
 * Saves a screen over the version that it was compared with, and makes its folder.
 * @throws ScreenError for one that its page would not save
 */
async function bringIn({ screen, present }: Candidate, folders: Set<string>): Promise<void> {
  const { name, folder, config } = screen;
  checkVariables(parseScreen(config));
  if (folder !== null && !folders.has(folder)) {
    await call("api/folders", { method: "POST", body: { name: folder } });
    folders.add(folder);
  }
  await call(`api/screens/${encodeURIComponent(name)}`, {
    method: "PUT",
    body: { folder, config, version: present?.version ?? 0 },
  });
}
