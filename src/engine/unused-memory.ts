/** Memory that a process has freed and its allocator keeps. */
import koffi from "koffi";

/**
 * What has glibc give back pages that nobody uses. By itself it keeps most of what buffers of a megabyte took once they
 * have come and gone, because it serves such from its heap then. Does nothing where the C library has no such call.
 */
export function loadTrim(): () => void {
  try {
    const trim = koffi.load(null).func("malloc_trim", "int", ["size_t"]);
    return () => {
      trim(0);
    };
  } catch {
    return () => undefined;
  }
}
