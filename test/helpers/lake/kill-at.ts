/** Lets a process end itself, as if it was killed, when it is at a named point for the nth time. */
export function killAt(point: string, nth: number): (reached: string) => Promise<void> | void {
  let left = nth;
  return (reached) => {
    if (reached === point && --left === 0) {
      process.kill(process.pid, "SIGKILL");
      // It does not return from here.
      return new Promise(() => undefined);
    }
    return undefined;
  };
}
