/** Requests that go with the component that makes them. */
import { useEffect, useRef } from "react";

/**
 * A signal that fires when the component is gone. The server revokes a key whose answer nobody waits for: whoever mints
 * one and leaves before it comes never sees it.
 */
export function useLeftSignal(): () => AbortSignal | undefined {
  const left = useRef<AbortController | null>(null);
  useEffect(() => {
    const controller = new AbortController();
    left.current = controller;
    return () => controller.abort();
  }, []);
  return () => left.current?.signal;
}
