/** What the tests of the administration share. */
import type { Page } from "playwright-core";
import { expect } from "vitest";

/** A call of the API by the page, as whoever is logged in there. */
export async function callApi(
  page: Page,
  method: string,
  path: string,
  body?: unknown,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const script = `(async ({ method, path, body }) => {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  })(${JSON.stringify({ method, path: `/${path}`, body })})`;
  return await page.evaluate(script);
}

/** Fails when a secret is anywhere that outlives what showed it. @param o.dom whether it may not be shown either */
export async function expectNowhere(page: Page, secret: string, o: { readonly dom?: boolean } = {}): Promise<void> {
  expect(secret.length).toBeGreaterThan(20);
  const places: Readonly<Record<string, string>> = await page.evaluate(`(async () => ({
    local: JSON.stringify({ ...localStorage }),
    session: JSON.stringify({ ...sessionStorage }),
    address: location.href,
    history: JSON.stringify(history.state),
    databases: JSON.stringify(await indexedDB.databases()),
    caches: JSON.stringify(await caches.keys().catch(() => [])),
    cookies: document.cookie,
    title: document.title,
    fields: [...document.querySelectorAll("input, textarea")].map(({ value }) => value).join("\\n"),
  }))()`);
  const dom = o.dom === false ? {} : { dom: await page.content() };
  const found = Object.entries({ ...places, ...dom }).filter(([, text]) => text.includes(secret.slice(4, -6)));
  expect(found.map(([place]) => place)).toEqual([]);
}

/** Fails when the page scrolls sideways, or on a narrow screen a table. */
export async function expectNoSideways(page: Page): Promise<void> {
  const [scroll, width] = await page.evaluate<[number, number]>(
    "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
  );
  expect(scroll).toBe(width);
  if (width < 480) {
    const cut: readonly string[] = await page.evaluate(
      `[...document.querySelectorAll('[role="grid"], table')]
        .map((table) => (table.role === "grid" ? table : table.parentElement))
        .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
        .map((table) => table.ariaLabel)`,
    );
    expect(cut).toEqual([]);
  }
}
