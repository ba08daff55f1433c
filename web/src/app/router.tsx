/** Routes of the pages. What an address holds beside the path is plain text, `name=value`, so that it can be read. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  type ErrorComponentProps,
  lazyRouteComponent,
  Outlet,
  retainSearchParams,
} from "@tanstack/react-router";
import type { ReactElement } from "react";

import { ApiError, notLoadedCode } from "../api/error.js";
import { baseUrl } from "../api/http.js";
import { logInHere, startSession } from "../api/session.js";
import { ErrorPart } from "../ui/states.js";
import { LoginPage } from "./instead/login-page.js";
import { NotFound } from "./instead/not-found.js";
import { pages } from "./pages.js";
import type { Search } from "./search.js";
import { Shell } from "./shell/shell.js";
import { StartFailed } from "./instead/start-failed.js";

/** What goes along from page to page. */
const kept = ["from", "to", "refresh", "audience", "source"] as const;

export function createAppRouter(): ReturnType<typeof createRouter> {
  const root = createRootRoute({
    component: Outlet,
    validateSearch: (search: Search): Search => search,
    search: { middlewares: [retainSearchParams([...kept])] },
    errorComponent: ({ error, reset }): ReactElement => <ErrorPart error={error} onRetry={reset} />,
  });
  const login = createRoute({ getParentRoute: () => root, path: "/login", component: LoginPage });
  const shell = createRoute({
    getParentRoute: () => root,
    id: "shell",
    component: Shell,
    beforeLoad: begin,
    errorComponent: StartFailed,
  });
  const routes = pages.map(({ path, load }) =>
    createRoute({ getParentRoute: () => shell, path, component: lazyRouteComponent(() => load().catch(notLoaded)) }),
  );
  const missing = createRoute({ getParentRoute: () => shell, path: "$", component: NotFound });
  return createRouter({
    routeTree: root.addChildren([login, shell.addChildren([...routes, missing])]),
    basepath: baseUrl.pathname,
    parseSearch,
    stringifySearch,
    defaultPreload: "intent",
    defaultErrorComponent: PageFailed,
    defaultNotFoundComponent: NotFound,
    scrollRestoration: false,
  }) as unknown as ReturnType<typeof createRouter>;
}

/** What stops the code of a page on its way is never the page. */
function notLoaded(): never {
  throw new ApiError({
    status: 0,
    code: notLoadedCode,
    message: "The service cannot be reached, or it was updated since this page was opened.",
    requestId: null,
  });
}

function PageFailed({ error, reset }: ErrorComponentProps): ReactElement {
  return error instanceof ApiError && error.code === notLoadedCode ? (
    <ErrorPart error={error} onRetry={() => window.location.reload()} title="This page could not be loaded" />
  ) : (
    <ErrorPart error={error} onRetry={reset} title="This page has failed" />
  );
}

let begun: Promise<boolean> | null = null;

/** Without a session there is nothing to show: it goes to the login and comes back to the same address. */
async function begin({ location }: { readonly location: { readonly href: string } }): Promise<void> {
  begun ??= startSession();
  try {
    if (!(await begun)) {
      logInHere(`${window.location.pathname}${window.location.search}` || location.href);
      await new Promise<never>(() => undefined); // the browser leaves
    }
  } catch (error) {
    begun = null;
    throw error;
  }
}

function parseSearch(text: string): Search {
  const search: Record<string, string | readonly string[]> = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const before = search[name];
    search[name] = before === undefined ? value : [...[before].flat(), value];
  }
  return search;
}

function stringifySearch(search: Readonly<Record<string, unknown>>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) {
        parameters.append(name, String(each));
      }
    }
  }
  // Characters that an address may hold as they are stay readable.
  const text = parameters.toString().replaceAll("%3A", ":").replaceAll("%2C", ",").replaceAll("%2F", "/");
  return text === "" ? "" : `?${text}`;
}
