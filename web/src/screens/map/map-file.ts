/** What a binary glTF file may be made of to be shown here: everything it needs is in it, and nothing is compressed. */
import { isObject } from "telemetry-service-client/shared/is-object";

/** Where the JSON of a GLB begins: behind the head of the file and that of the chunk. */
const jsonBegin = 20;
const magic = 0x46546c67;
const jsonChunk = 0x4e4f534a;

/** What the scene knows of what a file may insist on. */
const known =
  /^(?:KHR_materials_(?!variants)\w+|KHR_lights_punctual|KHR_mesh_quantization|KHR_texture_transform|EXT_texture_webp|EXT_texture_avif|EXT_mesh_gpu_instancing)$/;
/** Nothing of such a file is read without a decoder, even where it does not insist on it. */
const draco = "KHR_draco_mesh_compression";

/** Why a file cannot be shown, in a sentence; null when it can. */
export function mapFileProblem(file: ArrayBuffer): string | null {
  const json = jsonOf(file);
  if (json === null) {
    return "This map is no binary glTF file of version 2.";
  }
  const external = [...listOf(json["buffers"]), ...listOf(json["images"])].some(
    (each) => isObject(each) && each["uri"] !== undefined,
  );
  if (external) {
    return "This map names files or addresses outside itself, and nothing is loaded from them: export it with everything embedded in one GLB.";
  }
  const needs = listOf(json["extensionsRequired"]).filter((name) => typeof name !== "string" || !known.test(name));
  const uses = listOf(json["extensionsUsed"]).filter((name) => name === draco);
  const [unknown] = [...uses, ...needs];
  return unknown === undefined
    ? null
    : `This map needs ${typeof unknown === "string" ? unknown : JSON.stringify(unknown)}, which cannot be shown here: export it without, and uncompressed.`;
}

function jsonOf(file: ArrayBuffer): Readonly<Record<string, unknown>> | null {
  if (file.byteLength < jsonBegin) {
    return null;
  }
  const head = new DataView(file);
  const length = head.getUint32(12, true);
  if (
    head.getUint32(0, true) !== magic ||
    head.getUint32(4, true) !== 2 ||
    head.getUint32(16, true) !== jsonChunk ||
    jsonBegin + length > file.byteLength
  ) {
    return null;
  }
  try {
    const json: unknown = JSON.parse(new TextDecoder().decode(new Uint8Array(file, jsonBegin, length)));
    return isObject(json) ? json : null;
  } catch {
    return null;
  }
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
