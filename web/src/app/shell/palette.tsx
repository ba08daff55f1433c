/** Ctrl K: every page and what can be done anywhere, by its words. */
import { Autocomplete } from "@base-ui/react/autocomplete";
import { Dialog } from "@base-ui/react/dialog";
import { useNavigate } from "@tanstack/react-router";
import { Clock, LogOut, type LucideIcon, Moon, RefreshCw, Sun } from "lucide-react";
import { type ReactElement, useMemo, useRef } from "react";

import { wordsOf } from "../../api/error.js";
import { logOut, usePerson } from "../../api/session.js";
import { toast } from "../../ui/toast.js";
import { quickRanges, relativeName } from "../../ui/time-range.js";
import { pages } from "../pages.js";
import css from "./palette.module.css";
import { changeSettings } from "../settings.js";
import { useTimeRange } from "../time-range-context.js";

interface Command {
  readonly value: string;
  readonly label: string;
  readonly group: string;
  readonly words: string;
  readonly icon: LucideIcon;
  readonly run: () => void;
}

export function Palette({ open, onClose }: { readonly open: boolean; readonly onClose: () => void }): ReactElement {
  const input = useRef<HTMLInputElement | null>(null);
  return (
    <Dialog.Root open={open} onOpenChange={(next) => (next ? undefined : onClose())}>
      <Dialog.Portal>
        <Dialog.Backdrop className={css.backdrop} />
        <Dialog.Popup className={css.dialog} aria-label="Go to or do" initialFocus={input}>
          <Commands input={input} onClose={onClose} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Commands({
  input,
  onClose,
}: {
  readonly input: React.RefObject<HTMLInputElement | null>;
  readonly onClose: () => void;
}): ReactElement {
  const commands = useCommands();
  return (
    <Autocomplete.Root
      open
      inline
      items={commands}
      autoHighlight="always"
      keepHighlight
      itemToStringValue={(command: Command) => `${command.label} ${command.words}`}
    >
      <Autocomplete.Input ref={input} className={css.input} placeholder="Go to a page, or do something" />
      <Autocomplete.Empty className={css.none}>Nothing has these words.</Autocomplete.Empty>
      <Autocomplete.List className={css.list} aria-label="Commands">
        {(command: Command) => (
          <Autocomplete.Item
            key={command.value}
            value={command}
            className={css.item}
            onClick={() => {
              onClose();
              command.run();
            }}
          >
            <command.icon aria-hidden />
            {command.label}
            <span className={css.group}>{command.group}</span>
          </Autocomplete.Item>
        )}
      </Autocomplete.List>
    </Autocomplete.Root>
  );
}

function useCommands(): readonly Command[] {
  const navigate = useNavigate();
  const { isAdmin } = usePerson();
  const { setRange, refresh } = useTimeRange();
  return useMemo(() => {
    const action = (label: string, words: string, icon: LucideIcon, run: () => void): Command => ({
      value: label,
      label,
      group: "Do",
      words,
      icon,
      run,
    });
    return [
      ...pages.flatMap(({ path, title, navigation, adminOnly }): Command[] =>
        navigation === undefined || (adminOnly === true && !isAdmin)
          ? []
          : [
              {
                value: path,
                label: title,
                group: navigation.group === "" ? "Page" : navigation.group,
                words: navigation.words ?? "",
                icon: navigation.icon,
                run: () => void navigate({ to: path }),
              },
            ],
      ),
      action("Refresh", "reload again", RefreshCw, refresh),
      ...quickRanges.map((range) =>
        action(relativeName(range) ?? "", `time range ${range.from}`, Clock, () => setRange(range)),
      ),
      action("Light theme", "colours appearance", Sun, () => changeSettings({ theme: "light" })),
      action("Dark theme", "colours appearance", Moon, () => changeSettings({ theme: "dark" })),
      action("Log out", "leave sign", LogOut, () => {
        logOut().catch((error: unknown) => toast("Not logged out", wordsOf(error), "error"));
      }),
    ];
  }, [navigate, isAdmin, setRange, refresh]);
}
