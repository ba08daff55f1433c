/** Fingers on the screen of a page. */
import type { Locator, Page } from "playwright-core";

/** Two fingers on a part of the page go from places to others; 0 to 1 of its width. */
export async function pinch(
  page: Page,
  part: Locator,
  from: readonly [number, number],
  to: readonly [number, number],
): Promise<void> {
  await part.scrollIntoViewIfNeeded();
  const { x, y, width, height } = (await part.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
  const session = await page.context().newCDPSession(page);
  const steps = 5;
  const points = (step: number): { x: number; y: number; id: number }[] =>
    [0, 1].map((id) => {
      const [begin = 0, end = 0] = [from[id], to[id]];
      return { id, x: x + width * (begin + ((end - begin) * step) / steps), y: y + height / 2 };
    });
  await session.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: points(0).slice(0, 1) });
  for (let step = 0; step <= steps; step++) {
    const type = step === 0 ? "touchStart" : "touchMove";
    await session.send("Input.dispatchTouchEvent", { type, touchPoints: points(step) });
  }
  await session.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
  await session.detach();
}

/** Milliseconds that the time range of an address is long, which is absolute. */
export function rangeMs(page: Page): number {
  const { searchParams } = new URL(page.url());
  return Date.parse(searchParams.get("to") ?? "") - Date.parse(searchParams.get("from") ?? "");
}
