/** The items of a result with signs of life between them. */
import { ServiceError } from "../../../runtime/errors.js";

/** What `items` gives, and null whenever nothing has come for `ms`. Whatever it ends with ends the calls. */
export async function* paced<T>(
  items: Pick<AsyncGenerator<T, void>, "next" | "return">,
  ms: number | null,
  controller: AbortController,
): AsyncGenerator<T | null> {
  let next = items.next();
  let comesWithin = waitsFor(next);
  try {
    for (;;) {
      if (ms !== null && !(await comesWithin(ms))) {
        yield null;
        continue;
      }
      const result = await next;
      if (result.done === true) {
        return;
      }
      yield result.value;
      next = items.next();
      comesWithin = waitsFor(next);
    }
  } finally {
    // A read that waits for the server ends with the signal; what it says then interests nobody.
    controller.abort(new ServiceError("CANCELLED"));
    items.return(undefined).catch(() => undefined);
  }
}

/**
 * Waits for `work` again and again, one wait after the other: it is listened to once, since a promise keeps whatever
 * waits for it until it settles. That it fails is not unhandled then.
 * @returns resolves with whether `work` has settled, after so many milliseconds at the latest
 */
function waitsFor(work: Promise<unknown>): (ms: number) => Promise<boolean> {
  let settled = false;
  let wake = (): void => undefined;
  const settle = (): void => {
    settled = true;
    wake();
  };
  work.then(settle, settle);
  return async (ms) => {
    if (!settled) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    return settled;
  };
}
