/** Thread entry of the merge pool: one merge at a time. */
import { openMerger } from "../lake/merge/merger.js";
import { serveTasks } from "../runtime/threads/task-worker.js";
import type { MergeThread } from "./merge-client.js";

export default await serveTasks<MergeThread>(openMerger);
