/** What a server remembers of the streams that it has published; see commit.ts. */
import type { StreamRow } from "./catalogue-rows.js";

/** Then it begins anew. */
const mostStreams = 1 << 17;

/** Streams that this server has published, and so their processes. */
export class PublishedStreams {
  readonly #ids = new Set<string>();

  /** Ids of the processes that have a stream among these which this server has not published. */
  newProcesses(streams: readonly StreamRow[]): ReadonlySet<string> {
    return new Set(streams.flatMap(({ streamId, processId }) => (this.#ids.has(streamId) ? [] : [processId])));
  }

  add(streams: readonly StreamRow[]): void {
    for (const { streamId } of streams) {
      if (this.#ids.has(streamId)) {
        continue;
      }
      if (this.#ids.size === mostStreams) {
        this.#ids.clear();
      }
      // A copy: V8 made this text as a part of one with the ids of a whole batch, and would keep all of that.
      this.#ids.add(Buffer.from(streamId, "latin1").toString("latin1"));
    }
  }
}
