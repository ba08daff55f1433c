/** Maps on the server: binary glTF files. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import type { Map as MapRow } from "../../api/wire.js";
import { answer, call } from "../../api/call.js";

export function useMaps(): UseQueryResult<readonly MapRow[]> {
  return useQuery({
    queryKey: ["maps"],
    queryFn: ({ signal }) => call<readonly MapRow[]>("api/maps", { signal, query: { limit: 1000 } }),
  });
}

/** The bytes of a map, nothing while `file` is empty. They go when nothing shows them. */
export function useMapFile(file: string): UseQueryResult<ArrayBuffer> {
  return useQuery({
    queryKey: ["map", file],
    queryFn: ({ signal }) => getMap(file, signal),
    enabled: file !== "",
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
}

async function getMap(file: string, signal: AbortSignal): Promise<ArrayBuffer> {
  const path = `api/maps/${encodeURIComponent(file)}`;
  return await (await answer(path, { signal, accept: "model/gltf-binary, application/json" })).arrayBuffer();
}
