/** Binary glTF files, as far as it can be told before one is sent. */

/** Media type of a map (IANA). */
export const mapType = "model/gltf-binary";
const maxBytes = 64 * 1024 * 1024;
/** "glTF", little endian. */
const magic = 0x46546c67;

/** Why a file is no map, in a sentence; null when it may be one. */
export async function glbProblem(file: Blob): Promise<string | null> {
  if (file.size > maxBytes) {
    return "The file is larger than 64 MiB";
  }
  const head = new DataView(await file.slice(0, 12).arrayBuffer());
  if (head.byteLength < 12 || head.getUint32(0, true) !== magic) {
    return "The file is no GLB: it does not begin with glTF";
  }
  const version = head.getUint32(4, true);
  if (version !== 2) {
    return `The file is a GLB of version ${version}; only version 2 can be shown`;
  }
  return head.getUint32(8, true) === file.size ? null : "The file is cut off: it says that it is longer or shorter";
}
