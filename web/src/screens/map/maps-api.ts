/** Maps on the server: binary glTF files. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import type { Map as MapRow } from "../../api/wire.js";
import { listAll } from "../../admin/api.js";
import { answer } from "../../api/call.js";

export function useMaps(): UseQueryResult<readonly MapRow[]> {
  return useQuery({
    queryKey: ["maps"],
    queryFn: ({ signal }) => listAll<MapRow>("api/maps", {}, signal),
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
