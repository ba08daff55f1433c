/** Maps on the server: binary glTF files. */
import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import type { Map as MapRow } from "../../api/wire.js";
import { call } from "../../api/call.js";
import { errorOf, send } from "../../api/http.js";
import { renewSession } from "../../api/session.js";

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
  const get = (): Promise<Response> =>
    send(`api/maps/${encodeURIComponent(file)}`, { signal, accept: "model/gltf-binary, application/json" });
  let response = await get();
  if (response.status === 401) {
    await renewSession(signal);
    response = await get();
  }
  if (!response.ok) {
    throw await errorOf(response);
  }
  return await response.arrayBuffer();
}
