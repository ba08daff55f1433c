/**
 * The session, which the server keeps in cookies. When an answer is 401, the token is refreshed; where that is
 * refused, the person is asked to log in beside the page, and everything that waits goes on afterwards. A page belongs to
 * one person: after a logout, and when somebody else logs in, in any tab, none goes on.
 */
import { useSyncExternalStore } from "react";

import { ApiError, otherCode } from "./error.js";
import { apiUrl, baseUrl, errorOf, send } from "./http.js";

interface Person {
  readonly email: string | null;
  readonly name: string;
  readonly subject: string;
  readonly isAdmin: boolean;
}

/** `expired`: somebody has to log in again before anything goes on. */
type SessionState =
  | { readonly kind: "unknown" }
  | { readonly kind: "active"; readonly person: Person }
  | { readonly kind: "expired"; readonly person: Person };

let state: SessionState = { kind: "unknown" };
let renewal: Promise<void> | null = null;
const listeners = new Set<() => void>();
/** What tabs say to each other: who is logged in, null after a logout; or that somebody is, whoever it may be. */
type News = Identity | null | "logged in";
type Identity = Pick<Person, "subject" | "email">;

const channel = new BroadcastChannel(`telemetry.session ${baseUrl.pathname}`);
channel.addEventListener("message", ({ data }: MessageEvent<News>) => {
  if (data !== "logged in") {
    leaveUnlessOf(data);
  }
});

function tell(news: News): void {
  channel.postMessage(news);
}

/** What a page shows and waits for is of one person: when it is no longer theirs, it begins anew. */
function leaveUnlessOf(now: Identity | null): void {
  if (state.kind === "unknown" || isOf(now)) {
    return;
  }
  if (now === null) {
    window.location.assign(`${baseUrl.pathname}login`);
  } else {
    window.location.reload();
  }
}

function isOf(now: Identity | null): boolean {
  return state.kind !== "unknown" && state.person.subject === now?.subject && state.person.email === now.email;
}

function set(next: SessionState): void {
  state = next;
  for (const listener of listeners) {
    listener();
  }
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useSession(): SessionState {
  return useSyncExternalStore(subscribe, () => state);
}

/** Who is logged in; pages are shown to nobody else. */
export function usePerson(): Person {
  const session = useSession();
  return session.kind === "unknown" ? { email: null, name: "", subject: "", isAdmin: false } : session.person;
}

/** Asks who is logged in. False: nobody. @throws ApiError. */
export async function startSession(): Promise<boolean> {
  const person = (await readPerson()) ?? ((await refresh()) ? await readPerson() : null);
  if (person !== null) {
    set({ kind: "active", person });
    tell({ subject: person.subject, email: person.email });
  }
  return person !== null;
}

/**
 * Resolves when there is a session again; all that wait share one renewal.
 * @throws ApiError when that cannot be told now; DOMException AbortError when the signal fires before.
 */
export async function renewSession(signal?: AbortSignal): Promise<void> {
  renewal ??= renew().finally(() => {
    renewal = null;
  });
  const shared = renewal;
  await new Promise<void>((resolve, reject) => {
    const leave = (): void => reject(new DOMException("", "AbortError"));
    signal?.addEventListener("abort", leave, { once: true });
    shared.then(resolve, reject).finally(() => signal?.removeEventListener("abort", leave));
  });
}

async function renew(): Promise<void> {
  if (await refresh()) {
    return;
  }
  if (state.kind === "unknown") {
    throw new ApiError({ status: 401, code: "UNAUTHENTICATED", message: "Nobody is logged in.", requestId: null });
  }
  set({ kind: "expired", person: state.person });
  await new Promise<void>((resolve) => {
    const check = async (): Promise<void> => {
      const person = await readPerson();
      if (person === null) {
        return;
      }
      leaveUnlessOf(person);
      if (isOf(person)) {
        set({ kind: "active", person });
        channel.removeEventListener("message", heard);
        window.removeEventListener("focus", heard);
        resolve();
      }
    };
    const heard = (): void => {
      check().catch(() => undefined); // the dialog stays, and the next focus checks again
    };
    channel.addEventListener("message", heard);
    window.addEventListener("focus", heard);
  });
}

/** The server refused something: whoever was an administrator may be none any more, and pages change with that. */
export async function checkRights(): Promise<void> {
  if (state.kind !== "active" || !state.person.isAdmin) {
    return;
  }
  const person = await readPerson();
  if (person !== null && isOf(person)) {
    set({ kind: "active", person });
  }
}

/** Of a login beside the page, which closes itself. */
export const loginBesideUrl = (): string => apiUrl("auth/login", { return_to: `${baseUrl.pathname}login?done=1` });

/** Opens the login in a window of its own; the page under it stays as it is. False: the browser refuses. */
export function logInBeside(): boolean {
  return window.open(loginBesideUrl(), "telemetry-login", "popup,width=520,height=640") !== null;
}

/** Leaves for the login, which comes back to the address of now. */
export function logInHere(target: string): void {
  // The server takes no longer address; a tab's own memory does.
  const isLong = target.length > 900;
  if (isLong) {
    withStorage((storage) => storage.setItem("telemetry.return", target));
  }
  window.location.assign(apiUrl("auth/login", { return_to: isLong ? `${baseUrl.pathname}login?resume=1` : target }));
}

/** Where a login began, once; null when there was none. */
export function takeReturnTarget(): string | null {
  const target = withStorage((storage) => {
    const kept = storage.getItem("telemetry.return");
    storage.removeItem("telemetry.return");
    return kept;
  });
  return target?.startsWith(baseUrl.pathname) === true ? target : null;
}

/** Null in a browser that keeps nothing. */
function withStorage<T>(use: (storage: Storage) => T): T | null {
  try {
    return use(sessionStorage);
  } catch {
    return null;
  }
}

/** Says to the windows that wait that somebody has logged in. */
export function announceLogin(): void {
  tell("logged in");
}

/** Ends the session and shows the way back in. @throws ApiError. */
export async function logOut(): Promise<void> {
  const response = await send("auth/logout", { method: "POST", body: {} });
  if (!response.ok) {
    throw await errorOf(response);
  }
  tell(null);
  window.location.assign(`${baseUrl.pathname}login`);
}

/** False: there is nothing to refresh any more. @throws ApiError when that cannot be told now. */
async function refresh(): Promise<boolean> {
  const response = await send("auth/refresh", { method: "POST", body: {}, mayGiveUp: true });
  if (!response.ok && response.status !== 401) {
    throw await errorOf(response);
  }
  return response.ok;
}

async function readPerson(): Promise<Person | null> {
  const response = await send("auth/me");
  if (response.status === 401) {
    return null;
  }
  if (!response.ok) {
    throw await errorOf(response);
  }
  const said = (await response.json().catch(notOurs)) as Readonly<{
    email: string | null;
    name: string;
    subject: string;
    is_admin: boolean;
  }>;
  return { email: said.email, name: said.name, subject: said.subject, isAdmin: said.is_admin };
}

function notOurs(): never {
  throw new ApiError({
    status: 200,
    code: otherCode,
    message: "Something else than the service answered.",
    requestId: null,
  });
}
