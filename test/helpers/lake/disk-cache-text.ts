import { crc32 } from "node:zlib";

import type { WantedFile } from "../../../src/lake/cache/disk-cache.js";

/** Within the filling of a file: the first half is there, and all of it. */
export type FillStep = "half" | "filled";

/** A file with a text as its content. */
export function wantedText(
  key: string,
  text: string,
  at: (step: FillStep) => Promise<void> | void = () => undefined,
): WantedFile {
  const content = Buffer.from(text);
  return {
    key,
    bytes: content.length,
    fill: async (handle) => {
      const half = content.length >> 1;
      await handle.write(content, 0, half, 0);
      await at("half");
      await handle.write(content, half, content.length - half, half);
      await at("filled");
      return crc32(content);
    },
  };
}
