/** What surrounds every page: navigation, time range, whose data, who is logged in. */
import { Tooltip as BaseTooltip } from "@base-ui/react/tooltip";
import { Outlet, useRouterState } from "@tanstack/react-router";
import { type ReactElement, useEffect, useRef, useState } from "react";

import { warmUp } from "../../api/query.js";
import { logInBeside, loginBesideUrl, usePerson, useSession } from "../../api/session.js";
import { Button, Dialog } from "../../ui/controls/controls.js";
import { Toasts } from "../../ui/states.js";
import { AdminsOnly } from "../instead/admins-only.js";
import { Navigation } from "./navigation.js";
import { type PageEntry, pages } from "../pages.js";
import { Palette } from "./palette.js";
import { useSettings } from "../settings.js";
import css from "./shell.module.css";
import { TimeRangeProvider } from "../time-range-context.js";
import { TopBar } from "./top-bar.js";

export function Shell(): ReactElement {
  useEffect(warmUp, []);
  const { navigation } = useSettings();
  const [paletteOpen, setPaletteOpen] = useState(false);
  const page = useCurrentPage();
  useFocusOfPage(page);
  const title = page?.title ?? "Telemetry";
  const { isAdmin } = usePerson();
  useEffect(() => {
    document.title = `${title} · Telemetry`;
  }, [title]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        setPaletteOpen((open) => !open);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <TimeRangeProvider>
      <BaseTooltip.Provider>
        <div className={css.shell} data-navigation={navigation}>
          <a href="#page" className={css.skip} onClick={skipToPage}>
            Skip to the page
          </a>
          <Navigation onSearch={() => setPaletteOpen(true)} />
          <div className={css.column}>
            <TopBar title={title} hasRange={page?.timeRange ?? page !== undefined} />
            <main id="page" className={css.page} tabIndex={-1}>
              {page?.adminOnly === true && !isAdmin ? <AdminsOnly /> : <Outlet />}
            </main>
            <Toasts />
          </div>
        </div>
        <Palette open={paletteOpen} onClose={() => setPaletteOpen(false)} />
        <LoginAgain />
      </BaseTooltip.Provider>
    </TimeRangeProvider>
  );
}

/** The page that is shown, undefined for an address without one. */
function useCurrentPage(): PageEntry | undefined {
  const path = useRouterState({
    select: ({ matches }) => (matches.at(-1)?.fullPath as string | undefined)?.replace(/(?<=.)\/$/, ""),
  });
  return pages.find((page) => page.path === path);
}

/** A link of the same page would go by the base of the document. */
function skipToPage(event: { preventDefault: () => void }): void {
  event.preventDefault();
  focusPage();
}

function focusPage(): void {
  document.getElementById("page")?.focus({ preventScroll: true });
}

/** Who followed a link that went with its page goes on in the new one, and not at the top of the document. */
function useFocusOfPage(page: PageEntry | undefined): void {
  const before = useRef(page);
  useEffect(() => {
    if (before.current !== page && document.activeElement === document.body) {
      focusPage();
    }
    before.current = page;
  }, [page]);
}

/** Everything that was typed stays under it. */
function LoginAgain(): ReactElement {
  const session = useSession();
  const { email, name } = usePerson();
  const [isRefused, setRefused] = useState(false);
  return (
    <Dialog
      open={session.kind === "expired"}
      onClose={null}
      title="Your session has ended"
      actions={
        <Button look="primary" onClick={() => setRefused(!logInBeside())}>
          Log in
        </Button>
      }
    >
      <p>Log in again as {email ?? name} in a window of its own. This page stays as it is and goes on where it was.</p>
      {isRefused ? (
        <p role="alert">
          The browser opens no window for this page.{" "}
          <a href={loginBesideUrl()} target="_blank">
            Log in in another tab
          </a>
          , then come back to this one.
        </p>
      ) : null}
    </Dialog>
  );
}
