/**
 * Editing a screen: it was saved once, a draft changes it, and saving the draft makes its next version, unless somebody
 * else has saved one meanwhile.
 */
import { useNavigate } from "@tanstack/react-router";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";

import { type Task, useTask } from "../admin/api.js";
import { ApiError, PlainError } from "../api/error.js";
import type { Screen, ScreenRow } from "../api/wire.js";
import { toast } from "../ui/toast.js";
import { checkVariables, parseScreen, type ScreenConfig, ScreenError, type ScreenState } from "./screen-model.js";
import { deleteScreen, getScreen, getScreenVersion, putScreen } from "./screens-api.js";

interface Editing {
  readonly saved: Screen;
  /** What `saved` holds. */
  readonly parsed: ParsedConfig;
  /** Null while it is only looked at. */
  readonly draft: ScreenState | null;
  readonly edit: (draft: ScreenState | null) => void;
  /** The draft is not what was saved. */
  readonly isChanged: boolean;
  /** Why the last thing was not done. */
  readonly problem: unknown;
  /** What somebody else saved before the draft was. */
  readonly theirs: Screen | null;
  readonly goOn: () => void;
  readonly takeTheirs: () => void;
  /** Saves the draft over a version, unless it is being saved. */
  readonly save: (version: number) => void;
  readonly saving: boolean;
  readonly remove: Task<readonly []>;
  /** Takes a version as the draft, and says that it did. */
  readonly restore: Task<readonly [version: number, taken: () => void]>;
}

export function useEditing(screen: Screen): Editing {
  const queryClient = useQueryClient();
  const navigate = useNavigate();
  const [saved, setSaved] = useState(screen);
  const [draft, setDraft] = useState<ScreenState | null>(null);
  const [problem, setProblem] = useState<unknown>(null);
  const [theirs, setTheirs] = useState<Screen | null>(null);
  const parsed = useMemo(() => parsedConfig(saved.config), [saved.config]);
  const isChanged =
    draft !== null && JSON.stringify(draft) !== JSON.stringify({ config: parsed.config, folder: saved.folder });

  const { run: save, busy: saving } = useTask(async (version: number) => {
    if (draft === null) {
      return;
    }
    setProblem(null);
    try {
      checkVariables(draft.config);
      const now = await putScreen(saved.name, { ...draft, version });
      setSaved(now);
      // What was changed while it was sent is not saved.
      setDraft((current) => (current === draft ? null : current));
      setTheirs(null);
      queryClient.setQueryData(["screen", saved.name], now);
      await queryClient.invalidateQueries({ queryKey: ["screens"] });
      toast("Saved", `Version ${now.version}`);
    } catch (error) {
      if (error instanceof ApiError && error.status === 409) {
        await lookAtTheirs();
      } else {
        setProblem(error);
      }
    }
  });
  const lookAtTheirs = async (): Promise<void> => {
    try {
      setTheirs(await getScreen(saved.name));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) {
        setSaved({ ...saved, version: 0 });
        setTheirs(null);
        setProblem(
          new PlainError("Somebody has deleted this screen meanwhile. Save again to make it anew with your changes."),
        );
      } else {
        setProblem(error);
      }
    }
  };
  const takeTheirs = (): void => {
    if (theirs !== null) {
      setSaved(theirs);
      setDraft(null);
      setTheirs(null);
    }
  };
  const remove = useTask(async () => {
    await deleteScreen(saved.name, saved.version);
    queryClient.setQueryData<readonly ScreenRow[]>(["screens"], (rows) =>
      rows?.filter(({ name }) => name !== saved.name),
    );
    toast("Deleted", saved.name);
    return () => void navigate({ to: "/screens" });
  });
  const newest = useRef(isChanged);
  newest.current = isChanged;
  const restore = useTask(async (version: number, taken: () => void) => {
    const { config } = await getScreenVersion(saved.name, version);
    const next = { config: parseScreen(config), folder: saved.folder };
    return () => {
      // What was changed while it was on its way counts, too.
      if (!newest.current || window.confirm(`Edit version ${version} in place of what you changed?`)) {
        setDraft(next);
        taken();
      }
    };
  });
  return {
    saved,
    parsed,
    draft,
    edit: (next) => {
      setDraft(next);
      if (next === null) {
        setProblem(null); // it was about the draft
      }
    },
    isChanged,
    problem,
    theirs,
    goOn: () => setTheirs(null),
    takeTheirs,
    save,
    saving,
    remove,
    restore,
  };
}

interface ParsedConfig {
  readonly config: ScreenConfig;
  /** Why it cannot be shown. */
  readonly problem: string | null;
}

export function parsedConfig(config: unknown): ParsedConfig {
  try {
    return { config: parseScreen(config), problem: null };
  } catch (error) {
    if (error instanceof ScreenError) {
      return { config: { format: 1, cells: [] }, problem: error.message };
    }
    throw error;
  }
}
